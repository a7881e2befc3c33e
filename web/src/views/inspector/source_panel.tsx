/**
 * The line of the user's program that made a node, in its file, and the Python stack at a stop.
 *
 * Invariant: source text is text; it is coloured by pieces and never parsed as markup.
 */

import {
  createEffect,
  createMemo,
  createSignal,
  For,
  type JSX,
  on,
  onCleanup,
  Show,
} from "solid-js";
import { breakable, dedented, pythonTokens } from "@/base/python_tokens";
import { createQuery } from "@/store/page/query";
import type { Store } from "@/store/page/store";
import type { Frame, GetSource, SourceLocation } from "@/wire/types.gen";

/** Lines before and after; more if the window is high. */
const AROUND = 4;
const AROUND_HIGH = 7;
const HIGH = "(min-height: 960px)";

export function SourcePanel(props: {
  readonly store: Store;
  readonly source: SourceLocation | null;
  readonly stack: readonly Frame[];
  /** The program has raised its own error: only the stack says where. */
  readonly raised: boolean;
}): JSX.Element {
  const [frame, setFrame] = createSignal<number | undefined>();
  const high = matchMedia(HIGH);
  const [around, setAround] = createSignal(high.matches ? AROUND_HIGH : AROUND);
  const resized = (): void => void setAround(high.matches ? AROUND_HIGH : AROUND);
  high.addEventListener("change", resized);
  onCleanup(() => high.removeEventListener("change", resized));
  createEffect(
    on(
      () => [props.source, props.stack],
      () => setFrame(undefined),
      { defer: true },
    ),
  );
  const place = createMemo(
    () => {
      const picked = props.stack[frame() ?? -1];
      if (picked !== undefined) return { file: picked.file, line: picked.line };
      const first = props.stack[0];
      if (props.source !== null && !(props.raised && first !== undefined))
        return { file: props.source.file, line: props.source.line };
      return first === undefined ? undefined : { file: first.file, line: first.line };
    },
    undefined,
    { equals: (a, b) => a?.file === b?.file && a?.line === b?.line },
  );
  const answer = createQuery(props.store, "source", (): GetSource | undefined => {
    const run = props.store.runId();
    const file = place()?.file;
    return run === undefined || file === undefined ? undefined : { type: "get_source", run, file };
  });
  const lines = createMemo(() => {
    const now = answer();
    const at = place();
    if (now.kind !== "ready" || at === undefined || !now.value.found || now.value.file !== at.file)
      return [];
    const all = now.value.text.split("\n");
    const first = Math.max(1, Math.min(at.line - around(), all.length - 2 * around()));
    const part = dedented(all.slice(first - 1, first + 2 * around()));
    return part.map((text, i) => ({ number: first + i, text }));
  });
  return (
    <Show when={place()}>
      {(at) => (
        <section class="sec" data-testid="inspector-source">
          <div class="h">
            <span class="lab">Source</span>
            <span class="sp" />
            <span class="mi t3 ell" title={at().file}>
              {baseName(at().file)}:{at().line}
            </span>
          </div>
          <Show
            when={lines().length > 0}
            fallback={
              <p class="empty">
                {answer().kind === "none" ? "" : "The source of this file is not in the recording."}
              </p>
            }
          >
            <div class="src">
              <For each={lines()}>
                {(line) => (
                  <div class="src-line" classList={{ at: line.number === at().line }}>
                    <span class="ln">{line.number}</span>
                    <span class="src-text" style={{ "--hang": `${indentOf(line.text) + 2}ch` }}>
                      <For each={pythonTokens(line.text)}>
                        {(token) => (
                          <span class={`tok-${token.kind}`}>
                            <For each={breakable(token.text)}>
                              {(piece, i) => (
                                <>
                                  <Show when={i() > 0}>
                                    <wbr />
                                  </Show>
                                  <span classList={{ "src-arrow": piece === "->" }}>{piece}</span>
                                </>
                              )}
                            </For>
                          </span>
                        )}
                      </For>
                    </span>
                  </div>
                )}
              </For>
            </div>
          </Show>
          <Show when={props.stack.length > 1}>
            <ol class="stack" aria-label="Python stack, innermost first">
              <For each={props.stack}>
                {(line, i) => (
                  <li>
                    <button
                      type="button"
                      classList={{ on: (frame() ?? 0) === i() }}
                      title={line.file}
                      onClick={() => setFrame(i())}
                    >
                      <span class="m ell">{line.function || "module"}</span>
                      <span class="mi t3">
                        {baseName(line.file)}:{line.line}
                      </span>
                    </button>
                  </li>
                )}
              </For>
            </ol>
          </Show>
        </section>
      )}
    </Show>
  );
}

/** The indentation of a line; its continuation is indented by two more characters. */
function indentOf(text: string): number {
  return Math.max(0, text.search(/\S/));
}

function baseName(file: string): string {
  return file.slice(Math.max(file.lastIndexOf("/"), file.lastIndexOf("\\")) + 1);
}
