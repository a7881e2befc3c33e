import { decode, encode } from "@msgpack/msgpack";
import { beforeEach, describe, expect, test } from "vitest";
import { type Link, RequestError, Wire } from "@/wire/socket";
import {
  PROTOCOL_VERSION,
  type Push,
  type Request,
  type ResponseBody,
  type RunInfo,
} from "@/wire/types.gen";

/** A socket whose other end is the test. */
class FakeSocket extends EventTarget {
  readyState = 0;
  binaryType = "";
  readonly sent: Request[] = [];

  send(data: Uint8Array): void {
    this.sent.push(decode(data) as Request);
  }

  close(code = 1000, reason = ""): void {
    if (this.readyState === 3) return;
    this.readyState = 3;
    const event = new Event("close");
    Object.assign(event, { code, reason });
    this.dispatchEvent(event);
  }

  opened(): void {
    this.readyState = 1;
    this.dispatchEvent(new Event("open"));
  }

  gives(message: unknown): void {
    const bytes = encode(message);
    const data = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
    this.dispatchEvent(new MessageEvent("message", { data }));
  }

  answers(body: ResponseBody, request = this.sent.at(-1)): void {
    this.gives({ type: "response", id: request?.id, body });
  }
}

const GREETING: Extract<ResponseBody, { type: "initialized" }> = {
  type: "initialized",
  server_version: "0.1.0",
  protocol: PROTOCOL_VERSION,
  runs: [],
};

let sockets: FakeSocket[];
let links: Link[];
let lists: number[];
let pushes: Push[];
let timers: Map<number, { task: () => void; ms: number }>;
let following: { run: string; seq: number } | undefined;
let told: (runs: readonly RunInfo[]) => void;
let status: number;
let apart: ((data: ArrayBuffer) => Promise<unknown>) | undefined;
let wire: Wire;

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const last = (): FakeSocket => sockets.at(-1) as FakeSocket;

/** Runs the timers of exactly this delay. */
function elapse(ms: number): void {
  for (const [handle, timer] of [...timers]) {
    if (timer.ms !== ms) continue;
    timers.delete(handle);
    timer.task();
  }
}

async function connect(...runs: string[]): Promise<FakeSocket> {
  last().opened();
  await settled();
  last().answers({ ...GREETING, runs: runs.map((id) => ({ id }) as RunInfo) });
  await settled();
  return last();
}

beforeEach(() => {
  sockets = [];
  links = [];
  lists = [];
  pushes = [];
  timers = new Map();
  following = undefined;
  told = () => undefined;
  status = 200;
  apart = undefined;
  let handle = 0;
  wire = new Wire(
    {
      onLink: (link) => links.push(link),
      onRuns: (runs) => {
        lists.push(runs.length);
        told(runs);
      },
      onPush: (push) => pushes.push(push),
      following: () => following,
    },
    {
      open: () => {
        const socket = new FakeSocket();
        sockets.push(socket);
        return socket as unknown as WebSocket;
      },
      probe: () => Promise.resolve(status),
      now: () => 1000,
      decodeApart: (data) => apart?.(data) ?? Promise.resolve(decode(data)),
      later: (task, ms) => {
        timers.set(++handle, { task, ms });
        return handle;
      },
      cancel: (old) => void timers.delete(old),
    },
  );
  wire.start();
});

test("the runs are reported before the link is open", async () => {
  let kinds: string[] = [];
  told = () => {
    kinds = links.map(({ kind }) => kind);
  };
  await connect("a");
  expect(kinds).toEqual(["connecting"]);
  expect(links.at(-1)?.kind).toBe("open");
});

describe("requests", () => {
  test("are answered by id, in any order", async () => {
    const socket = await connect();
    const request = wire.request({ type: "unsubscribe", run: "a" }, "done");
    const two = wire.request({ type: "get_source", run: "a", file: "f" }, "source");
    await settled();
    const [first, second] = socket.sent.slice(-2);
    socket.answers({ type: "source", file: "f", text: "x", found: true }, second);
    socket.answers({ type: "done" }, first);
    expect((await two).text).toBe("x");
    expect((await request).type).toBe("done");
  });

  test("that fail carry the server's words", async () => {
    const socket = await connect();
    const request = wire.request({ type: "get_state", run: "a", seq: 1 }, "state_at");
    await settled();
    socket.answers({ type: "failed", message: "no run a", hint: "see /api/runs" });
    await expect(request).rejects.toMatchObject({ message: "no run a", hint: "see /api/runs" });
  });

  test("time out with a message for the user", async () => {
    await connect();
    const request = wire.request({ type: "get_state", run: "a", seq: 1 }, "state_at", 900);
    await settled();
    elapse(900);
    await expect(request).rejects.toThrow("did not answer within 0.9 s");
  });

  test("end with the connection", async () => {
    const socket = await connect();
    const request = wire.request({ type: "get_state", run: "a", seq: 1 }, "state_at");
    await settled();
    socket.close(1006);
    await expect(request).rejects.toBeInstanceOf(RequestError);
    await expect(wire.request({ type: "get_state", run: "a", seq: 1 }, "state_at")).rejects.toThrow(
      "Not connected",
    );
  });

  test("wait their turn when many are under way", async () => {
    const socket = await connect();
    const before = socket.sent.length;
    const all = Array.from({ length: 20 }, () =>
      wire.request({ type: "unsubscribe", run: "a" }, "done"),
    );
    await settled();
    expect(socket.sent.length - before).toBe(16);
    for (const request of socket.sent.slice(before)) socket.answers({ type: "done" }, request);
    await settled();
    for (const request of socket.sent.slice(before + 16)) socket.answers({ type: "done" }, request);
    expect(await Promise.all(all)).toHaveLength(20);
  });
});

test("a heartbeat is answered at once, and is no push", async () => {
  const socket = await connect();
  socket.gives({ type: "heartbeat" });
  expect(socket.sent.at(-1)?.body).toEqual({ type: "alive" });
  expect(pushes).toHaveLength(0);
});

describe("reconnection", () => {
  test("a run subscribed to when the runs are reported is not subscribed to twice", async () => {
    told = (runs) => {
      following = { run: runs[0]?.id ?? "", seq: 0 };
      void wire.request({ type: "subscribe", ...following }, "done");
    };
    await connect("r");
    expect(last().sent.filter(({ body }) => body.type === "subscribe")).toHaveLength(1);
  });

  test("subscribes again from the last seq", async () => {
    const socket = await connect();
    following = { run: "r", seq: 41 };
    socket.close(1006);
    expect(links.at(-1)).toEqual({ kind: "lost", since: 1000, attempt: 1 });
    elapse(250);
    await connect("r");
    expect(last().sent.at(-1)?.body).toEqual({ type: "subscribe", run: "r", seq: 41 });
    expect(links.at(-1)?.kind).toBe("open");
  });

  test("subscribes once a restarted server knows the run", async () => {
    const socket = await connect();
    following = { run: "r", seq: 41 };
    socket.close(1006);
    elapse(250);
    await connect();
    expect(lists).toEqual([0]); // from the first connection: the display stays
    expect(last().sent.at(-1)?.body.type).toBe("initialize");
    last().gives({ type: "runs", runs: [{ id: "other" }] });
    expect(last().sent.at(-1)?.body.type).toBe("initialize");
    last().gives({ type: "runs", runs: [{ id: "r" }] });
    expect(last().sent.at(-1)?.body).toEqual({ type: "subscribe", run: "r", seq: 41 });
    last().gives({ type: "runs", runs: [{ id: "r" }] });
    expect(last().sent.filter((message) => message.body.type === "subscribe")).toHaveLength(1);
  });

  test("sends a request about an unknown run once the server knows the run", async () => {
    const socket = await connect();
    following = { run: "r", seq: 41 };
    socket.close(1006);
    elapse(250);
    await connect();
    const request = wire.request({ type: "get_branches", run: "r" }, "branches");
    const other = wire.request({ type: "get_branches", run: "other" }, "branches");
    await settled();
    const questions = (): readonly unknown[] =>
      last()
        .sent.map((message) => message.body as { type: string; run?: string })
        .filter((message) => message.type === "get_branches")
        .map((message) => message.run);
    expect(questions()).toEqual(["other"]);
    last().answers({ type: "branches", branches: [], notes: [] });
    await other;
    last().gives({ type: "runs", runs: [{ id: "r" }] });
    await settled();
    last().answers({ type: "done" });
    await settled();
    expect(questions()).toEqual(["other", "r"]);
    last().answers({ type: "branches", branches: [], notes: [] });
    await expect(request).resolves.toMatchObject({ branches: [] });
  });

  test("waits for a run that never comes only until the time-out", async () => {
    const socket = await connect();
    following = { run: "r", seq: 41 };
    socket.close(1006);
    elapse(250);
    await connect();
    const request = wire.request({ type: "get_branches", run: "r" }, "branches");
    elapse(15_000);
    await settled();
    last().answers({ type: "failed", message: "there is no run r", hint: "" });
    await expect(request).rejects.toThrow("there is no run r");
    const lost = wire.request({ type: "get_branches", run: "r" }, "branches");
    last().close(1006);
    await expect(lost).rejects.toThrow("Not connected");
  });

  test("is not tried after the server has ended", async () => {
    const socket = await connect();
    const request = wire.request({ type: "get_branches", run: "r" }, "branches");
    socket.close(1012);
    await expect(request).rejects.toThrow("The connection was lost");
    expect(links.at(-1)).toEqual({ kind: "ended" });
    expect(timers.size).toBe(0);
    wire.retryNow();
    expect(sockets).toHaveLength(1);
    const late = wire.request({ type: "get_branches", run: "r" }, "branches");
    await expect(late).rejects.toThrow("nodescope has ended");
  });

  test("backs off, and can be hurried", async () => {
    await connect();
    last().close(1006);
    for (const wait of [250, 500, 1000, 2000, 4000, 4000]) {
      elapse(wait);
      last().close(1006);
    }
    expect(sockets).toHaveLength(7);
    wire.retryNow();
    expect(sockets).toHaveLength(8);
    expect(timers.size).toBe(0);
  });
});

describe("refusals", () => {
  test("an older server is named", async () => {
    last().opened();
    await settled();
    last().answers({ ...GREETING, protocol: 99 } as ResponseBody);
    await settled();
    expect(links.at(-1)).toEqual({ kind: "skew", ours: PROTOCOL_VERSION, theirs: 99 });
    expect(timers.size).toBe(0);
  });

  test("a browser without the cookie learns why, and does not try again", async () => {
    status = 401;
    last().close(1006);
    await settled();
    expect(links.at(-1)).toMatchObject({ kind: "refused" });
    elapse(250);
    expect(sockets).toHaveLength(1);
  });

  test("a server that is not there yet is tried again", async () => {
    status = 0;
    last().close(1006);
    await settled();
    elapse(250);
    expect(sockets).toHaveLength(2);
  });
});

test("pushes are handed on in order", async () => {
  const socket = await connect();
  socket.gives({ type: "runs", runs: [] });
  socket.gives({ type: "session", run: "r", info: {} });
  expect(pushes.map((push) => push.type)).toEqual(["runs", "session"]);
});

test("a large message is decoded apart, and what follows waits for it", async () => {
  const socket = await connect();
  const decoded: ((message: unknown) => void)[] = [];
  apart = () => new Promise((resolve) => decoded.push(resolve));
  socket.gives({ type: "runs", runs: [], padding: new Uint8Array(2 << 20) });
  socket.gives({ type: "session", run: "r", info: {} });
  socket.gives({ type: "heartbeat" });
  await settled();
  expect(pushes).toEqual([]);
  expect(socket.sent.at(-1)?.body).toEqual({ type: "alive" });
  decoded[0]?.({ type: "runs", runs: [] });
  await settled();
  expect(pushes.map((push) => push.type)).toEqual(["runs", "session"]);
});

test("a large message that cannot be decoded apart is decoded by the page", async () => {
  const socket = await connect();
  apart = () => Promise.reject(new Error("no worker"));
  socket.gives({ type: "runs", runs: [], padding: new Uint8Array(2 << 20) });
  await settled();
  expect(pushes.map((push) => push.type)).toEqual(["runs"]);
});

test("how a run ended is delivered although the server is gone before a large message is decoded", async () => {
  const socket = await connect();
  const decoded: ((message: unknown) => void)[] = [];
  apart = () => new Promise((resolve) => decoded.push(resolve));
  socket.gives({ type: "runs", runs: [], padding: new Uint8Array(2 << 20) });
  socket.gives({ type: "run", run: {} });
  socket.close(1012);
  await settled();
  expect(links.at(-1)?.kind).toBe("open");
  decoded[0]?.({ type: "runs", runs: [] });
  await settled();
  expect(pushes.map((push) => push.type)).toEqual(["runs", "run"]);
  expect(links.at(-1)).toEqual({ kind: "ended" });
  expect(sockets).toHaveLength(1);
});
