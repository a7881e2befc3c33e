/**
 * The page's end of the wire: one WebSocket, requests with answers, pushes, and reconnection.
 *
 * Reconnecting means replaying: the followed run is subscribed to again from the last seq that the
 * page has. Pushes reach `onPush` in order; nothing else reads the socket.
 *
 * Invariant: every request ends, with an answer, a failure in words, or a time-out.
 */

import { decode, encode } from "@msgpack/msgpack";
import {
  PROTOCOL_VERSION,
  type Push,
  type RequestBody,
  type ResponseBody,
  type RunInfo,
  type ServerMessage,
} from "@/wire/types.gen";

/** The state of the connection, in a form that the page can describe. */
export type Link =
  | { readonly kind: "connecting" }
  | { readonly kind: "open"; readonly server: string }
  | { readonly kind: "lost"; readonly since: number; readonly attempt: number }
  /** The server is ending: it does not come back, and the page does not wait. */
  | { readonly kind: "ended" }
  | { readonly kind: "refused"; readonly message: string }
  | { readonly kind: "skew"; readonly ours: number; readonly theirs: number };

/** A request that was not carried out; the message is for the user. */
export class RequestError extends Error {
  constructor(
    message: string,
    readonly hint = "",
  ) {
    super(message);
  }
}

/** A request that could not be sent, or was not answered, because the connection is down. */
export class LineError extends RequestError {}

/** Any error as a line for the user. */
export function inWords(error: unknown): string {
  if (error instanceof RequestError) {
    const hint = error.hint.slice(0, 1).toUpperCase() + error.hint.slice(1);
    return [error.message, hint].filter(Boolean).join(". ");
  }
  return error instanceof Error ? error.message : String(error);
}

export interface WireEvents {
  onLink(link: Link): void;
  onRuns(runs: readonly RunInfo[]): void;
  onPush(push: Push): void;
  /** The run to follow and the last known seq, evaluated at each (re)connection. */
  following(): { readonly run: string; readonly seq: number } | undefined;
}

/** The parts of the environment that the wire needs; tests supply their own. */
export interface WireHost {
  open(): WebSocket;
  /** HTTP status of an ordinary request: a refused socket does not tell a page why. */
  probe(): Promise<number>;
  now(): number;
  later(task: () => void, ms: number): number;
  cancel(handle: number): void;
  /** Decodes a large message in a worker; without it, the main thread decodes. */
  decodeApart?(data: ArrayBuffer): Promise<unknown>;
}

const REQUEST_TIMEOUT_MS = 15_000;
const BACKOFF_MS = [250, 500, 1000, 2000, 4000] as const;
const REFUSED =
  "The server does not know this browser. Open the address that nodescope printed last; it " +
  "holds a one-time token.";
const LOST = "The connection was lost";
const OVER = "nodescope has ended, and with it whoever reads the recording";
const MAX_IN_FLIGHT = 16;
/** Larger messages, such as a snapshot of 10,000 nodes, are decoded in a worker. */
const LARGE_BYTES = 1 << 20;
/** WebSocket close codes that mean "do not come back like this". */
const REFUSALS = new Set([1002, 1008, 1013]);
/** Sent by a server that ends; a killed one sends nothing. */
const ENDED = 1012;

interface Pending {
  resolve(body: ResponseBody): void;
  reject(error: RequestError): void;
  readonly timer: number;
}

type Delivered = Exclude<ServerMessage, { readonly type: "heartbeat" }>;
type Answer<T extends ResponseBody["type"]> = Extract<ResponseBody, { readonly type: T }>;

export class Wire {
  private socket: WebSocket | undefined;
  private readonly pending = new Map<number, Pending>();
  private readonly queue: (() => void)[] = [];
  private nextId = 1;
  private attempt = 0;
  private everOpen = false;
  private greeted = false;
  /** The followed run, while a restarted server does not know it. */
  private astray: string | undefined;
  /** Resumes the requests that wait for that run. */
  private readonly held: (() => void)[] = [];
  /** The run last subscribed to over this connection. */
  private subscribed: string | undefined;
  private lostAt = 0;
  private retry: number | undefined;
  private closed = false;
  private ended = false;
  /** Delivery of the messages behind one that is being decoded; undefined if none is. */
  private behind: Promise<void> | undefined;

  constructor(
    private readonly events: WireEvents,
    private readonly host: WireHost,
  ) {}

  /** Connects now, and again whenever the connection is lost. */
  start(): void {
    if (this.closed) return;
    if (!this.everOpen) this.events.onLink({ kind: "connecting" });
    let socket: WebSocket;
    try {
      socket = this.host.open();
    } catch {
      this.lose();
      return;
    }
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    this.subscribed = undefined;
    socket.addEventListener("open", () => void this.initialize(socket));
    socket.addEventListener("message", (event: MessageEvent<unknown>) => {
      if (socket === this.socket) this.receive(event.data);
    });
    socket.addEventListener("close", (event) => {
      if (socket === this.socket) void this.disconnected(event.code, event.reason);
    });
  }

  /** Ends the connection for good. */
  stop(): void {
    this.closed = true;
    if (this.retry !== undefined) this.host.cancel(this.retry);
    const socket = this.socket;
    this.socket = undefined;
    this.failAll("The page was closed");
    socket?.close();
  }

  /** Tries again at once, if the connection is down. */
  retryNow(): void {
    if (this.closed || this.socket !== undefined) return;
    if (this.retry !== undefined) this.host.cancel(this.retry);
    this.retry = undefined;
    this.start();
  }

  /**
   * Sends a request; resolves with the answer of the expected type.
   *
   * Rejects with a `RequestError` if the server refuses, does not answer, or is not there.
   */
  async request<T extends ResponseBody["type"]>(
    body: RequestBody,
    wanted: T,
    timeoutMs = REQUEST_TIMEOUT_MS,
  ): Promise<Answer<T>> {
    if ("run" in body && body.run === this.astray) await this.known(timeoutMs);
    const answer = await this.exchange(body, timeoutMs);
    if (answer.type === "failed") throw new RequestError(answer.message, answer.hint);
    if (answer.type !== wanted) {
      throw new RequestError(`The server answered ${answer.type} instead of ${wanted}`);
    }
    return answer as Answer<T>;
  }

  private async exchange(body: RequestBody, timeoutMs: number): Promise<ResponseBody> {
    // The server disconnects a page that sends requests without waiting for answers.
    while (this.pending.size >= MAX_IN_FLIGHT) await new Promise<void>((go) => this.queue.push(go));
    try {
      return await this.send(body, timeoutMs);
    } finally {
      this.queue.shift()?.();
    }
  }

  private send(body: RequestBody, timeoutMs: number): Promise<ResponseBody> {
    const socket = this.socket;
    if (socket === undefined || socket.readyState !== 1) {
      return Promise.reject(new LineError(this.ended ? OVER : "Not connected to the server"));
    }
    const id = this.nextId++;
    return new Promise((resolve, reject) => {
      const timer = this.host.later(() => {
        this.pending.delete(id);
        reject(new RequestError(`The server did not answer within ${timeoutMs / 1000} s`));
      }, timeoutMs);
      this.pending.set(id, { resolve, reject, timer });
      if (body.type === "subscribe") this.subscribed = body.run;
      socket.send(encode({ id, body }));
    });
  }

  private async initialize(socket: WebSocket): Promise<void> {
    try {
      const answer = await this.exchange(
        { type: "initialize", client: "page", protocol: PROTOCOL_VERSION },
        REQUEST_TIMEOUT_MS,
      );
      if (answer.type === "failed") {
        this.refuse({
          kind: "refused",
          message: [answer.message, answer.hint].filter(Boolean).join(" "),
        });
        return;
      }
      if (answer.type !== "initialized" || answer.protocol !== PROTOCOL_VERSION) {
        const protocol = answer.type === "initialized" ? answer.protocol : 0;
        this.refuse({ kind: "skew", ours: PROTOCOL_VERSION, theirs: protocol });
        return;
      }
      // A restarted server knows no run at first, and learns of runs in a moment.
      const early = this.everOpen && answer.runs.length === 0;
      this.attempt = 0;
      this.everOpen = true;
      this.greeted = true;
      this.astray = early ? this.events.following()?.run : undefined;
      // The runs come first: an open link without runs would look like an empty server.
      if (!early) this.events.onRuns(answer.runs);
      this.events.onLink({ kind: "open", server: answer.server_version });
      await this.follow(answer.runs);
    } catch (error) {
      // After a `RequestError` (the run is gone, the server is silent), the connection stays. Any
      // other error closes it, and the next attempt starts from scratch.
      if (socket === this.socket && !(error instanceof RequestError)) socket.close();
    }
  }

  /** Subscribes again once the server knows the run: a restarted server learns of it late. */
  private async follow(runs: readonly RunInfo[]): Promise<void> {
    const followed = this.events.following();
    if (followed !== undefined && !runs.some((run) => run.id === followed.run)) {
      this.astray = followed.run;
      return;
    }
    this.astray = undefined;
    try {
      // The page may have subscribed already when it received the runs.
      if (followed !== undefined && followed.run !== this.subscribed) {
        await this.request({ type: "subscribe", ...followed }, "done");
      }
    } finally {
      this.release();
    }
  }

  /** Waits until the server knows the followed run, but no longer than for an answer. */
  private known(timeoutMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = this.host.later(resolve, timeoutMs);
      this.held.push(() => {
        this.host.cancel(timer);
        resolve();
      });
    });
  }

  private release(): void {
    for (const go of this.held.splice(0)) go();
  }

  private refuse(link: Link): void {
    this.events.onLink(link);
    this.stop();
  }

  private receive(data: unknown): void {
    if (!(data instanceof ArrayBuffer) && !ArrayBuffer.isView(data)) return;
    if (data instanceof ArrayBuffer && data.byteLength > LARGE_BYTES && this.host.decodeApart) {
      this.inTurn(this.host.decodeApart(data).catch(() => decode(data)));
      return;
    }
    const message = decode(data as ArrayBuffer) as ServerMessage;
    if (message.type === "heartbeat") {
      // Answered at once on the main thread, so that a frozen page does not answer.
      this.socket?.send(encode({ id: this.nextId++, body: { type: "alive" } }));
      return;
    }
    if (this.behind === undefined) this.deliver(message);
    else this.inTurn(message);
  }

  /** Delivers a message after earlier ones, unless the connection has been replaced by then. */
  private inTurn(message: unknown): void {
    const { socket } = this;
    const turn = (this.behind ?? Promise.resolve())
      .then(() => message)
      .then((decoded) => {
        if (this.behind === turn) this.behind = undefined;
        if (socket === this.socket) this.deliver(decoded as Delivered);
      });
    this.behind = turn;
  }

  private deliver(message: Delivered): void {
    if (message.type !== "response") {
      this.events.onPush(message);
      if (this.astray !== undefined && message.type === "runs") {
        this.follow(message.runs).catch(() => undefined); // the run or the connection is gone
      }
      return;
    }
    const waiting = this.pending.get(message.id);
    if (waiting === undefined) return;
    this.pending.delete(message.id);
    this.host.cancel(waiting.timer);
    waiting.resolve(message.body);
  }

  private async disconnected(code: number, reason: string): Promise<void> {
    const { socket } = this;
    // Messages about how the runs ended came before this, and may wait behind a large message.
    while (code === ENDED && this.behind !== undefined) await this.behind.catch(() => undefined);
    if (socket !== this.socket) return;
    const wasOpen = this.greeted;
    this.socket = undefined;
    this.greeted = false;
    this.astray = undefined;
    this.failAll(LOST);
    if (code === ENDED) {
      this.ended = true;
      this.refuse({ kind: "ended" });
      return;
    }
    if (REFUSALS.has(code)) {
      this.refuse({ kind: "refused", message: reason });
      return;
    }
    this.lose();
    if (wasOpen) return;
    const status = await this.host.probe().catch(() => 0);
    if (!this.closed && (status === 401 || status === 403)) {
      this.refuse({ kind: "refused", message: REFUSED });
    }
  }

  private lose(): void {
    if (this.closed) return;
    this.socket = undefined;
    if (this.attempt === 0) this.lostAt = this.host.now();
    const wait = BACKOFF_MS[Math.min(this.attempt, BACKOFF_MS.length - 1)] ?? 4000;
    this.attempt += 1;
    this.events.onLink({ kind: "lost", since: this.lostAt, attempt: this.attempt });
    this.retry = this.host.later(() => {
      this.retry = undefined;
      this.start();
    }, wait);
  }

  private failAll(message: string): void {
    this.release();
    const waiting = [...this.pending.values()];
    this.pending.clear();
    for (const pending of waiting) {
      this.host.cancel(pending.timer);
      pending.reject(new LineError(message));
    }
  }
}
