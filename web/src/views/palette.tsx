/**
 * The palette: finds every node, scope and command by typing a part of its name.
 *
 * Invariant: opening it stops nothing and closing it changes nothing.
 */

import { createEffect, createMemo, createSignal, For, type JSX, on, Show } from "solid-js";
import { fitness } from "@/base/fitness";
import { keepKey } from "@/base/keys";
import { commandFitness } from "@/base/synonyms";
import type { Store } from "@/store/page/store";
import type { Ui } from "@/store/page/ui";
import type { Item } from "@/store/page/url";
import { takeFocus } from "@/widgets/focus";

export interface PaletteCommand {
  readonly title: string;
  readonly keys: string;
  enabled(): boolean;
  run(): void;
}

interface Entry {
  readonly title: string;
  readonly note: string;
  readonly kind: "command" | "node" | "scope";
  run(): void;
}

const MOST = 60;

export function Palette(props: {
  readonly store: Store;
  readonly ui: Ui;
  readonly commands: readonly PaletteCommand[];
  go(item: Item): void;
}): JSX.Element {
  let box!: HTMLDivElement;
  let list!: HTMLDivElement;
  const [text, setText] = createSignal("");
  const [at, setAt] = createSignal(0);
  const close = (): void => void props.ui.setOverlay("none");
  const entries = createMemo((): readonly Entry[] => {
    const wanted = text().trim().toLowerCase();
    const ranked: { entry: Entry; score: number }[] = [];
    const consider = (entry: Entry, bonus: number): void => {
      const fits = entry.kind === "command" ? commandFitness : fitness;
      const score = wanted === "" ? bonus : fits(entry.title, wanted);
      if (score !== undefined) ranked.push({ entry, score: score + (wanted === "" ? 0 : bonus) });
    };
    for (const command of props.commands) {
      if (command.enabled()) {
        consider(
          { title: command.title, note: command.keys, kind: "command", run: command.run },
          2,
        );
      }
    }
    const graph = props.store.model()?.graph;
    for (const [path, { stack }] of props.store.tree()?.scopes ?? []) {
      if (path === "" || stack !== undefined) continue;
      consider(
        { title: path, note: "scope", kind: "scope", run: () => props.go({ kind: "scope", path }) },
        4,
      );
    }
    for (const node of graph?.nodes ?? []) {
      if (node === undefined) continue;
      consider(
        {
          title: node.name,
          note: node.op,
          kind: "node",
          run: () => props.go({ kind: "node", id: node.id }),
        },
        5,
      );
    }
    return ranked
      .sort((a, b) => a.score - b.score)
      .slice(0, MOST)
      .map((match) => match.entry);
  });
  createEffect(on(entries, () => setAt(0)));
  createEffect(() => {
    list.children[at()]?.scrollIntoView({ block: "nearest" });
  });
  takeFocus(() => box);
  const choose = (entry: Entry | undefined): void => {
    if (entry === undefined) return;
    close();
    props.store.board.commanded();
    entry.run();
  };
  return (
    <div
      class="overlay"
      onPointerDown={(event) => {
        if (event.target === event.currentTarget) close();
      }}
    >
      <div ref={box} class="palette-box" role="dialog" aria-label="Find a node or a command">
        <input
          class="palette-input"
          data-testid="palette-input"
          placeholder="Find a node, a scope or a command"
          aria-label="Find a node, a scope or a command"
          value={text()}
          spellcheck={false}
          role="combobox"
          aria-expanded="true"
          aria-controls="palette-list"
          aria-activedescendant={`palette-${at()}`}
          autocomplete="off"
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={(event) => {
            keepKey(event);
            const count = entries().length;
            if (event.key === "Escape") close();
            else if (event.key === "ArrowDown") setAt((at() + 1) % Math.max(1, count));
            else if (event.key === "ArrowUp") setAt((at() + count - 1) % Math.max(1, count));
            else if (event.key === "Enter") choose(entries()[at()]);
            else return;
            event.preventDefault();
          }}
        />
        <div class="palette-list" id="palette-list" role="listbox" ref={list}>
          <For each={entries()}>
            {(entry, i) => (
              <button
                type="button"
                class="palette-entry"
                role="option"
                id={`palette-${i()}`}
                tabindex={-1}
                aria-selected={i() === at()}
                title={entry.title}
                classList={{ on: i() === at() }}
                onPointerMove={() => setAt(i())}
                onClick={() => choose(entry)}
              >
                <span class="ell" classList={{ m: entry.kind !== "command" }}>
                  {entry.title}
                </span>
                <span class="sp" />
                <span class="mi t3">{entry.note}</span>
              </button>
            )}
          </For>
        </div>
        <Show when={entries().length === 0}>
          <p class="empty pad">No matches.</p>
        </Show>
      </div>
    </div>
  );
}
