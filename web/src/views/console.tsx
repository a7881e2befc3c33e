/**
 * What the program wrote, line by line.
 *
 * Invariant: follows the end until the user scrolls up, and again once the end is reached.
 */

import { createEffect, createMemo, createSignal, type JSX, on } from "solid-js";
import { formatCount } from "@/base/numbers";
import { stepAt } from "@/store/run_model";
import type { Store } from "@/store/store";
import type { LogRow } from "@/wire/types.gen";
import { VirtualList, type VirtualListHandle } from "@/widgets/virtual_list";

interface Line {
  readonly row: LogRow;
  readonly text: string;
  readonly first: boolean;
}

const MAX_TEXT = 2000;

export function Console(props: { readonly store: Store }): JSX.Element {
  let list: VirtualListHandle | undefined;
  const [follow, setFollow] = createSignal(true);
  const lines = createMemo(() => {
    const cursor = props.store.cursor();
    const made: Line[] = [];
    for (const row of props.store.model()?.logs ?? []) {
      if (cursor.kind === "past" && row.seq > cursor.seq) break;
      const texts = row.text.replace(/\n$/, "").split("\n");
      for (const [i, text] of texts.entries()) {
        const short = text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}…` : text;
        made.push({ row, first: i === 0, text: short });
      }
    }
    return made;
  });
  createEffect(
    on(
      () => lines().length,
      () => {
        if (follow()) queueMicrotask(() => list?.scrollToEnd());
      },
    ),
  );
  const jump = (line: Line): void => {
    const steps = props.store.model()?.steps ?? [];
    if (stepAt(steps, line.row.seq) !== undefined) void props.store.seek(line.row.seq);
  };
  return (
    <VirtualList<Line>
      class="console"
      items={lines()}
      rowHeight={18}
      attrs={{ "data-testid": "console", role: "log", "aria-label": "Console", tabindex: 0 }}
      ref={(handle) => {
        list = handle;
        handle.scrollToEnd();
      }}
      onScrolled={setFollow}
      empty={<p class="empty">The program has written nothing yet.</p>}
      row={(line) => (
        <div
          class={`log ${line().row.stream}`}
          title={`Written at record ${line().row.seq}`}
          onDblClick={() => jump(line())}
        >
          <span class="log-step mi t3">
            {line().first && line().row.step > 0 ? formatCount(line().row.step) : ""}
          </span>
          <span class="log-text m">{line().text}</span>
        </div>
      )}
    />
  );
}
