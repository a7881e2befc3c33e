import { expect, test } from "vitest";
import type { CommandScope } from "@/app/commands";
import { pageCommands } from "@/app/commands";
import { keyName, listen } from "@/app/keyboard";
import type { PageCommand } from "@/app/page_command";
import { NoticeBoard } from "@/store/page/notices";

const key = (name: string, change: KeyboardEventInit = {}) =>
  new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true, ...change });

test("keys have the names that the page shows", () => {
  expect(keyName(key("f"))).toBe("F");
  expect(keyName(key("F11", { shiftKey: true }))).toBe("⇧F11");
  expect(keyName(key("k", { metaKey: true }))).toBe("Ctrl K");
  expect(keyName(key("?", { shiftKey: true }))).toBe("?");
  expect(keyName(key("ArrowLeft", { altKey: true }))).toBe("Alt ←");
  expect(keyName(key("f", { altKey: true }))).toBe("Alt ");
});

test("a key is bound once", () => {
  const keys = pageCommands({ store: {}, ui: {}, preferences: {} } as CommandScope)
    .map((command) => command.keys)
    .filter(Boolean);
  expect(new Set(keys).size).toBe(keys.length);
});

test("letters typed into a field stay there; the debugger's keys do not", () => {
  const ran: string[] = [];
  const command = (keys: string): PageCommand => ({
    title: keys,
    keys,
    group: "Page",
    enabled: () => keys !== "F6",
    run: () => ran.push(keys),
  });
  const page = {
    ui: { overlay: () => "none" },
    store: { selection: () => undefined, board: new NoticeBoard(), stops: () => 0 },
  };
  const stop = listen(window, ["F", "F5", "F6"].map(command), page as unknown as CommandScope);
  const field = document.createElement("input");
  document.body.append(field);
  field.dispatchEvent(key("f"));
  field.dispatchEvent(key("F5"));
  document.body.dispatchEvent(key("f"));
  const disabled = key("F6");
  document.body.dispatchEvent(disabled);
  stop();
  document.body.dispatchEvent(key("f"));
  expect(ran).toEqual(["F5", "F"]);
  // Otherwise the browser would reload or move its focus, so these keys are caught even if they
  // have no effect.
  expect(disabled.defaultPrevented).toBe(true);
});
