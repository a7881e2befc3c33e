/**
 * Two moments of a run side by side: the held one, A, and the one shown, or both sides of an edit.
 *
 * Invariant: holding a moment does not move the page; the currently selected node is compared.
 */

import { type Accessor, batch, createEffect, createMemo, createSignal, on } from "solid-js";
import { formatCount, formatNumber, plural } from "@/base/numbers";
import type { Store } from "@/store/page/store";
import type { Ui } from "@/store/page/ui";
import type { EditRow, MomentsCompared } from "@/wire/types.gen";

export interface Moment {
  readonly seq: number;
  readonly step: number;
  /** A description, if the step alone is ambiguous. */
  readonly words?: string;
}

export interface Moments {
  readonly held: Accessor<Moment | undefined>;
  /** The other side, if it is not the moment shown. */
  readonly other: Accessor<Moment | undefined>;
  /** The moment shown. */
  readonly here: Accessor<Moment>;
  hold(moment?: Moment): void;
  /** Compares the moments before and after an edit. */
  edited(edit: EditRow): void;
  /** Swaps A and B: goes to A, and holds the moment shown until then. */
  swap(): void;
  clear(): void;
  /** Opens the tab with the differences. */
  show(): void;
}

export function createMoments(store: Store, ui: Ui): Moments {
  const [heldMoment, setHeld] = createSignal<Moment | undefined>();
  const [other, setOther] = createSignal<Moment | undefined>();
  const current = createMemo((): Moment => {
    const cursor = store.cursor();
    return cursor.kind === "past"
      ? { seq: cursor.seq, step: cursor.step }
      : { seq: store.model()?.seq ?? 0, step: store.step() };
  });
  const clear = (): void => {
    batch(() => {
      setHeld(undefined);
      setOther(undefined);
    });
  };
  createEffect(on(store.runId, clear, { defer: true }));
  return {
    held: heldMoment,
    other,
    here: current,
    hold: (moment) => {
      const wanted = moment ?? current();
      batch(() => {
        setHeld(wanted);
        setOther(undefined);
      });
      store.notify("info", `Held as A: ${momentWords(wanted)}. Go to another moment and press D.`);
    },
    edited: (edit) => {
      batch(() => {
        setHeld({ seq: edit.seq - 1, step: edit.step, words: "before the edit" });
        setOther({ seq: edit.seq, step: edit.step, words: "after the edit" });
      });
    },
    swap: () => {
      const earlier = heldMoment();
      if (earlier === undefined) return;
      const two = other();
      batch(() => {
        setHeld(two ?? current());
        setOther(two === undefined ? undefined : earlier);
      });
      if (two === undefined) void store.seek(earlier.seq);
    },
    clear,
    show: () => void ui.setInspectorTab("diff"),
  };
}

export function momentWords(moment: Moment): string {
  return [`step ${formatCount(moment.step)}`, moment.words].filter(Boolean).join(", ");
}

/** The result of a comparison, in one line. */
export function verdict(comparison: MomentsCompared): string {
  const { measure } = comparison;
  if (!comparison.one.found || !comparison.other.found) return "Nothing to compare.";
  if (comparison.same) return "Both moments show the same execution.";
  if (measure.source === "none") return `Not compared: ${measure.why}.`;
  if (measure.source === "summaries") {
    return measure.equal ? "The statistics are equal." : "The statistics differ.";
  }
  if (comparison.differ === 0) return `Bit-identical: ${plural(measure.elements, "element")}.`;
  const all = comparison.differ === measure.elements;
  const count = formatCount(comparison.differ ?? 0);
  if (measure.elements === 1) return "The value changed.";
  return all
    ? `All ${count} elements differ.`
    : `${count} of ${formatCount(measure.elements)} elements differ.`;
}

/** Why there are no elements to compare, or "". */
export function missing(comparison: MomentsCompared): string {
  if (comparison.measure.source !== "summaries" || comparison.same) return "";
  const side = !comparison.one.elements ? comparison.one : comparison.other;
  const missingSide = comparison.one.elements
    ? "B has"
    : comparison.other.elements
      ? "A has"
      : "A and B have";
  return `Statistics only: ${missingSide} no recorded elements. ${side.reason}`;
}

/** A statistic at both moments, and their difference. */
export interface StatisticRow {
  readonly name: string;
  readonly one: string;
  readonly other: string;
  readonly difference: string;
}

export function statisticRows(comparison: MomentsCompared): readonly StatisticRow[] {
  const a = comparison.one.summary;
  const b = comparison.other.summary;
  if (a === null || b === null) return [];
  const number = (
    name: string,
    one: number | null,
    other: number | null,
    text: (value: number | null) => string,
  ): StatisticRow => ({
    name,
    one: text(one),
    other: text(other),
    difference: one === null || other === null ? "" : signed(other - one, text),
  });
  const plain = (value: number | null): string => formatNumber(value);
  const count = (value: number | null): string => formatCount(value ?? 0);
  return [
    number("min", a.min, b.min, plain),
    number("max", a.max, b.max, plain),
    number("mean", a.mean, b.mean, plain),
    number("std", a.std, b.std, plain),
    number("norm", a.norm, b.norm, plain),
    number("zero", a.zero_count, b.zero_count, count),
    number("NaN", a.nan_count, b.nan_count, count),
    number("Inf", a.inf_count, b.inf_count, count),
  ];
}

function signed(value: number, text: (value: number) => string): string {
  if (value === 0) return "=";
  return value > 0 ? `+${text(value)}` : `\u2212${text(-value)}`;
}
