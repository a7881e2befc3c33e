import { createRoot } from "solid-js";
import { afterEach, describe, expect, test } from "vitest";
import { takeFocus } from "@/widgets/focus";

const soon = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Opens a form with a checkbox and two fields; returns a function that closes it. */
async function opened(first?: string): Promise<() => void> {
  const box = document.createElement("form");
  box.innerHTML = '<input type="checkbox"><input id="one"><select id="two"></select>';
  const close = createRoot((dispose) => {
    takeFocus(() => box, first);
    document.body.append(box);
    return dispose;
  });
  await soon();
  return () => {
    close();
    box.remove();
  };
}

const focused = (): string => document.activeElement?.id ?? "";

describe("the focus of a form", () => {
  afterEach(() => document.body.replaceChildren());

  test("goes into its first field, and back", async () => {
    document.body.innerHTML = '<button id="opener"></button>';
    document.getElementById("opener")?.focus();
    const close = await opened();
    expect(focused()).toBe("one");
    close();
    await soon();
    expect(focused()).toBe("opener");
  });

  test("goes to the given field", async () => {
    const close = await opened("#two");
    expect(focused()).toBe("two");
    close();
  });

  test("stays where the user has moved it since", async () => {
    document.body.innerHTML = '<button id="opener"></button><button id="other"></button>';
    document.getElementById("opener")?.focus();
    const close = await opened();
    document.getElementById("other")?.focus();
    close();
    await soon();
    expect(focused()).toBe("other");
  });

  test("goes back past a popover that opened the form and is gone", async () => {
    document.body.innerHTML = '<button id="opener"></button>';
    document.getElementById("opener")?.focus();
    const palette = await opened();
    palette();
    const form = await opened("#two");
    expect(focused()).toBe("two");
    form();
    await soon();
    expect(focused()).toBe("opener");
  });
});
