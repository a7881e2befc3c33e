/**
 * The step slider: moves the whole page through what has been recorded.
 *
 * Invariant: moving it changes the view, never the program.
 */

import { createEffect, createMemo, type JSX, Show } from "solid-js";
import { formatCount } from "@/base/numbers";
import type { Store } from "@/store/page/store";
import { standsAfter, stepAt } from "@/store/run/run_model";
import { Canvas, type Surface } from "@/widgets/canvas";
import { IconButton } from "@/widgets/icon";

export function Scrubber(props: { readonly store: Store; readonly theme: string }): JSX.Element {
  const store = props.store;
  let slider!: HTMLInputElement;
  const last = () => Math.max(1, store.model()?.lastEvent ?? 1);
  const past = createMemo(() => {
    const cursor = store.cursor();
    return cursor.kind === "past" ? cursor : undefined;
  });
  const atSeq = () => past()?.seq ?? last();
  /** Why nothing continues from here; "" in the past. */
  const end = () => {
    if (past() !== undefined) return "";
    return store.model()?.info.state === "live"
      ? ": this is the newest that is recorded"
      : ": this is the end of the recording";
  };
  const steps = () => store.model()?.steps ?? [];
  // Set `max` first: the slider clamps its value to the old `max`.
  createEffect(() => {
    slider.max = String(last());
    slider.value = String(atSeq());
  });
  const step = createMemo(() => stepAt(steps(), atSeq()));
  const after = () => {
    store.tick();
    return standsAfter(store);
  };
  const seek = (seq: number): void => {
    if (seq >= last()) store.backToLive();
    else void store.seek(Math.max(1, Math.round(seq)));
  };
  const turn = (by: 1 | -1): void => {
    const row = step();
    if (row === undefined) return;
    // Back first goes to the start of this step, as in media players.
    const index = steps().indexOf(row);
    const target =
      by < 0 ? steps()[atSeq() - row.start_seq > 1 ? index : index - 1] : steps()[index + 1];
    if (target !== undefined) seek(target.start_seq);
    else seek(by < 0 ? 1 : last());
  };
  /** Characters of the longest text before the time, so that the slider keeps its width. */
  const room = () => {
    const most = formatCount(last());
    const at = formatCount(steps().at(-1)?.step ?? 0);
    return `after step ${at} · event ${most} of ${most}`.length;
  };
  const marks = ({ g, width, height, colour }: Surface): void => {
    void props.theme;
    const all = steps();
    const end = last();
    const stride = Math.max(1, Math.ceil(all.length / Math.max(1, width / 4)));
    g.fillStyle = colour("--line-strong");
    for (let i = 0; i < all.length; i += stride) {
      // Steps that the governor left out are lighter.
      g.globalAlpha = all[i]?.observed === false ? 0.35 : 1;
      const x = 7 + ((all[i]?.start_seq ?? 0) / end) * (width - 14);
      g.fillRect(Math.round(x), 4, 1, height - 8);
    }
    // Mark the end of the last step, if something ran after it.
    const over = all.at(-1)?.end_seq ?? end;
    g.globalAlpha = 1;
    if (over + 1 < end) g.fillRect(Math.round(7 + (over / end) * (width - 14)), 4, 1, height - 8);
    g.globalAlpha = 1;
  };
  return (
    <div class="scrub" role="group" aria-label="Moment shown">
      <IconButton
        small
        icon="first"
        label={`To the start of the step${last() <= 1 ? ": nothing is recorded yet" : ""}`}
        disabled={last() <= 1}
        onClick={() => turn(-1)}
      />
      <IconButton
        small
        icon="left"
        label={`Previous execution${atSeq() <= 1 ? ": this is the beginning" : ""}`}
        disabled={atSeq() <= 1}
        onClick={() => seek(atSeq() - 1)}
      />
      <div class="scrub-track">
        <Canvas class="scrub-marks" label="Steps" draw={marks} />
        <input
          type="range"
          data-testid="slider"
          aria-label="Moment in the recording"
          aria-valuetext={`${after() ? "after " : ""}step ${step()?.step ?? 0}, event ${atSeq()} of ${last()}`}
          min={1}
          ref={slider}
          disabled={store.model() === undefined}
          classList={{ past: past() !== undefined }}
          style={{ "--at": `${((atSeq() - 1) / Math.max(1, last() - 1)) * 100}%` }}
          onInput={(event) => seek(event.currentTarget.valueAsNumber)}
        />
      </div>
      <IconButton
        small
        icon="right"
        label={`Next execution${end()}`}
        disabled={past() === undefined}
        onClick={() => seek(atSeq() + 1)}
      />
      <IconButton
        small
        icon="last"
        label={`To the next step${end()}`}
        disabled={past() === undefined}
        onClick={() => turn(1)}
      />
      <span class="scrub-words mi t2" style={{ "--room": `${room()}` }}>
        <Show when={(step()?.step ?? 0) > 0}>
          {after() ? "after " : ""}step {formatCount(step()?.step ?? 0)}
          {step()?.observed === false && !after() ? " (unobserved)" : ""} ·{" "}
        </Show>
        event {formatCount(atSeq())} of {formatCount(last())}
      </span>
      <button
        type="button"
        class="btn back-live"
        data-testid="back-to-live"
        disabled={past() === undefined}
        title={past() === undefined ? `No past moment is shown${end()}` : "L"}
        onClick={() => store.backToLive()}
      >
        {store.model()?.info.state === "live" ? "Back to live" : "Back to the end"}
      </button>
    </div>
  );
}
