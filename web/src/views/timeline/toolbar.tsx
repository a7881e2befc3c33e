/**
 * The bar above the timeline: buttons for the window and the course, and the moment in words.
 *
 * Invariant: the words are the longest that fit.
 */

import { createSignal, For, type JSX, onCleanup, onMount } from "solid-js";
import type { Ui } from "@/store/page/ui";

/** Empty space at the end, px. */
const BAR_END = 4;
/** Width of a character, px. */
const CHARACTER = 6;

const COURSES = [
  {
    id: "path",
    title: "Critical path",
    hint: "The longest chain of operations that waited for one another in the step",
  },
  {
    id: "memory",
    title: "Memory",
    hint: "The memory that the step needs, and what makes its peak",
  },
] as const;

export function TimelineToolbar(props: {
  readonly ui: Ui;
  /** Whether times are known. */
  readonly timed: boolean;
  /** Whether a step is shown. */
  readonly step: boolean;
  showAll(): void;
  showStep(): void;
  /** The moment in words; if `short`, with at most `most` parts of the time. */
  words(short?: boolean, most?: number): string;
}): JSX.Element {
  let bar!: HTMLDivElement;
  let wordsBox!: HTMLSpanElement;
  const [room, setRoom] = createSignal(Number.POSITIVE_INFINITY);
  onMount(() => {
    const resize = new ResizeObserver(() => {
      const { right } = bar.getBoundingClientRect();
      setRoom(right - wordsBox.getBoundingClientRect().left - BAR_END);
    });
    resize.observe(bar);
    onCleanup(() => resize.disconnect());
  });
  const fittingWords = (): string => {
    const fits = (text: string) => text.length * CHARACTER <= room();
    const longer = [props.words(), props.words(true), props.words(true, 2)];
    return longer.find(fits) ?? props.words(true, 1);
  };
  return (
    <div class="timeline-bar" ref={bar}>
      <button
        type="button"
        class="btn small"
        data-testid="timeline-all"
        title="The whole run (Home)"
        onClick={() => props.showAll()}
      >
        Fit all
      </button>
      <button
        type="button"
        class="btn small"
        data-testid="timeline-step"
        title="The current step (0)"
        disabled={!props.step}
        onClick={() => props.showStep()}
      >
        This step
      </button>
      <For each={COURSES}>
        {(course) => (
          <button
            type="button"
            class="btn small"
            data-testid={`timeline-${course.id}`}
            title={course.hint}
            aria-pressed={props.ui.course() === course.id}
            disabled={course.id === "path" && !props.timed}
            onClick={() =>
              void props.ui.setCourse((now) => (now === course.id ? "none" : course.id))
            }
          >
            {course.title}
          </button>
        )}
      </For>
      <span
        class="mi t2 ell timeline-words"
        data-testid="timeline-words"
        title={props.words()}
        ref={wordsBox}
      >
        {fittingWords()}
      </span>
    </div>
  );
}
