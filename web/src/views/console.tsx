/**
 * The program's output, line by line; lines that are too long continue in the next row.
 *
 * Invariant: follows the end until the user scrolls up, and again when the end is reached.
 */

import { createEffect, createMemo, createSignal, type JSX, on, onCleanup } from "solid-js";
import { textWidth } from "@/base/fonts_metrics";
import { formatCount } from "@/base/numbers";
import { wrapped } from "@/base/wrap";
import type { Store } from "@/store/page/store";
import { stepAt } from "@/store/run/run_model";
import { IconButton } from "@/widgets/icon";
import { VirtualList, type VirtualListHandle } from "@/widgets/virtual_list";
import type { LogRow } from "@/wire/types.gen";

interface Line {
  readonly row: LogRow;
  readonly text: string;
  readonly first: boolean;
}

const MAX_TEXT = 2000;
/** Width beside the text, px: step, stream and the gaps between. */
const BESIDE = 160;
const CHARACTER = textWidth("0", { face: "mono", weight: 400, size: 12 });
const FROM: Readonly<Record<LogRow["stream"], string>> = {
  stdout: "",
  stderr: "stderr",
  nodescope: "nodescope",
};

/** The output up to the moment shown, unchanged. */
function consoleText(store: Store): string {
  const cursor = store.cursor();
  return (store.model()?.logs ?? [])
    .filter((row) => cursor.kind === "live" || row.seq <= cursor.seq)
    .map((row) => (row.text.endsWith("\n") ? row.text : `${row.text}\n`))
    .join("");
}

export function Console(props: { readonly store: Store }): JSX.Element {
  let list: VirtualListHandle | undefined;
  const [follow, setFollow] = createSignal(true);
  const [columns, setColumns] = createSignal(MAX_TEXT);
  const resize = new ResizeObserver(([entry]) => {
    const width = entry?.contentRect.width ?? 0;
    if (width > 0) setColumns(Math.floor((width - BESIDE) / CHARACTER));
  });
  onCleanup(() => resize.disconnect());
  const lines = createMemo(() => {
    const cursor = props.store.cursor();
    const lines: Line[] = [];
    for (const row of props.store.model()?.logs ?? []) {
      if (cursor.kind === "past" && row.seq > cursor.seq) break;
      const texts = row.text.replace(/\n$/, "").split("\n");
      for (const [i, text] of texts.entries()) {
        const short = text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}…` : text;
        for (const [k, piece] of wrapped(short, columns()).entries()) {
          lines.push({ row, first: i === 0 && k === 0, text: piece });
        }
      }
    }
    return lines;
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
        resize.observe(handle.element);
        handle.scrollToEnd();
      }}
      follows={follow()}
      onScrolled={setFollow}
      empty={<p class="empty">No output yet.</p>}
      row={(line) => (
        <div
          class={`log ${line().row.stream}`}
          title={`${line().text}\n\nevent ${formatCount(line().row.seq)}; double-click to go there`}
          onDblClick={() => jump(line())}
        >
          <span class="log-step mi t3">
            {line().first && line().row.step > 0 ? `step ${formatCount(line().row.step)}` : ""}
          </span>
          <span class="log-from mi">{line().first ? FROM[line().row.stream] : ""}</span>
          <span class="log-text m">{line().text}</span>
        </div>
      )}
    />
  );
}

export function CopyConsole(props: { readonly store: Store }): JSX.Element {
  return (
    <IconButton
      small
      icon="copy"
      label="Copy the program's output"
      testid="console-copy"
      onClick={() =>
        void navigator.clipboard?.writeText(consoleText(props.store)).then(
          () => props.store.notify("ok", "Console copied."),
          () => props.store.notify("error", "The browser did not allow copying."),
        )
      }
    />
  );
}
