/**
 * The passes of a compiled function as a slider: which stage the right side shows.
 *
 * Invariant: a range input, so that it works by keyboard and is read aloud.
 */

import { createSignal, For, type JSX, onCleanup, onMount } from "solid-js";
import { formatCount, formatDuration, plural } from "@/base/numbers";
import { IconButton } from "@/widgets/icon";
import type { Stage } from "@/wire/types.gen";

// Width of the name of a pass, px; with less room, only the pass that is shown has its name.
const NAME_WIDTH = 68;

function stageName(stage: Stage | undefined): string {
  return stage?.name === "final" ? "final graph" : (stage?.name ?? "");
}

/** `final graph · 6 rewrites · 905 µs · 30 nodes`, without parts that add nothing. */
export function stageWords(stage: Stage, final: boolean): string {
  return [
    final && stage.name !== "final" ? "final graph" : "",
    plural(stage.changes.length, "rewrite"),
    stage.took_ns > 0 ? formatDuration(stage.took_ns) : "",
    plural(stage.nodes, "node"),
  ]
    .filter(Boolean)
    .join(" · ");
}

export function PassSlider(props: {
  readonly stages: readonly Stage[];
  readonly index: number;
  onSelect(index: number): void;
}): JSX.Element {
  let track!: HTMLDivElement;
  const [width, setWidth] = createSignal(Number.POSITIVE_INFINITY);
  onMount(() => {
    const resize = new ResizeObserver(() => setWidth(track.clientWidth));
    resize.observe(track);
    onCleanup(() => resize.disconnect());
  });
  const last = () => props.stages.length - 1;
  const crowded = () => width() < last() * NAME_WIDTH;
  const now = () => props.stages[props.index];
  const words = (): string => {
    const stage = now();
    if (stage === undefined) return "";
    if (props.index === 0) return `as traced · ${plural(stage.nodes, "node")}`;
    return stageWords(stage, props.index === last());
  };
  return (
    <div class="cmp-passes" data-testid="passes">
      <span class="lab">Passes</span>
      <IconButton
        icon="left"
        label="Previous pass ([)"
        testid="pass-before"
        small
        disabled={props.index === 0}
        onClick={() => props.onSelect(props.index - 1)}
      />
      <div class="cmp-track" classList={{ crowded: crowded() }} ref={track}>
        <input
          type="range"
          min={0}
          max={last()}
          step={1}
          value={props.index}
          disabled={last() < 1}
          aria-label="Stage of the compilation"
          aria-valuetext={`${now()?.name ?? ""}, ${words()}`}
          data-testid="pass-slider"
          onInput={(event) => props.onSelect(Number(event.currentTarget.value))}
        />
        <div class="cmp-ticks" aria-hidden="true">
          <For each={props.stages}>
            {(stage, at) => (
              <button
                type="button"
                class="cmp-tick"
                classList={{ on: at() === props.index, done: at() <= props.index }}
                tabindex={-1}
                title={`${stage.name}: ${formatCount(stage.changes.length)} rewrites`}
                style={{ left: `${last() === 0 ? 0 : (at() / last()) * 100}%` }}
                onClick={() => props.onSelect(at())}
              >
                <span class="mi">{stage.name}</span>
              </button>
            )}
          </For>
        </div>
      </div>
      <IconButton
        icon="right"
        label="Next pass (])"
        testid="pass-next"
        small
        disabled={props.index >= last()}
        onClick={() => props.onSelect(props.index + 1)}
      />
      <span class="cmp-pass-words ell" data-testid="pass-words">
        <b>{stageName(now())}</b> <span class="t3">{words()}</span>
      </span>
    </div>
  );
}
