/**
 * The key sheet.
 *
 * Invariant: it lists the keyboard's commands, from the same table.
 */

import { For, type JSX } from "solid-js";
import { takeFocus } from "@/widgets/focus";
import { IconButton } from "@/widgets/icon";

export interface KeyGroup {
  readonly title: string;
  readonly keys: readonly { readonly keys: string; readonly does: string }[];
}

export function KeysHelp(props: {
  readonly groups: readonly KeyGroup[];
  onClose(): void;
}): JSX.Element {
  let box!: HTMLDivElement;
  takeFocus(() => box, "[data-first]");
  return (
    <div
      class="overlay"
      onPointerDown={(event) => {
        if (event.target === event.currentTarget) props.onClose();
      }}
    >
      <div
        class="keys-box"
        ref={box}
        role="dialog"
        aria-label="Keyboard shortcuts"
        tabindex={-1}
        data-testid="keys"
        onKeyDown={(event) => {
          if (event.key === "Escape" || event.key === "?") {
            props.onClose();
            event.stopPropagation();
          }
        }}
      >
        <header class="row">
          <h2>Keyboard shortcuts</h2>
          <span class="sp" />
          <IconButton icon="close" label="Close" onClick={() => props.onClose()} />
        </header>
        <div class="keys-groups">
          <For each={props.groups}>
            {(group) => (
              <section>
                <h3 class="lab">{group.title}</h3>
                <dl>
                  <For each={group.keys}>
                    {(command) => (
                      <div>
                        <dt classList={{ none: command.keys === "" }}>
                          <For each={command.keys.split(" ").filter(Boolean)}>
                            {(key) => <kbd>{key}</kbd>}
                          </For>
                        </dt>
                        <dd>{command.does}</dd>
                      </div>
                    )}
                  </For>
                </dl>
              </section>
            )}
          </For>
        </div>
      </div>
    </div>
  );
}
