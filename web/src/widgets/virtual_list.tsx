/**
 * A list of equally high rows, of which only the visible ones exist.
 *
 * Invariant: the number of elements depends on the height of the pane, not on the number of rows.
 *
 * TanStack Virtual would cost more, as it keeps a size for each row: a line appended to 100,000
 * takes 3 ms instead of 0.3, scrolling takes 1.5 to 2 times the script time, and the page grows by
 * 37 kB.
 */

import {
  type Accessor,
  createMemo,
  createSignal,
  For,
  type JSX,
  onCleanup,
  onMount,
  untrack,
} from "solid-js";

const MARGIN = 6;

export interface VirtualListHandle {
  /** Scrolls as little as needed to show a row. */
  reveal(index: number): void;
  scrollToEnd(): void;
  readonly element: HTMLElement;
}

export function VirtualList<T>(props: {
  readonly items: readonly T[];
  readonly rowHeight: number;
  readonly class?: string;
  readonly attrs?: Readonly<Record<string, string | number | undefined>>;
  readonly empty?: JSX.Element;
  /** Whether the list stays scrolled to its end when the height of its pane changes. */
  readonly follows?: boolean;
  ref?(handle: VirtualListHandle): void;
  onScrolled?(atEnd: boolean): void;
  onKeyDown?(event: KeyboardEvent): void;
  row(item: Accessor<T>, index: Accessor<number>): JSX.Element;
}): JSX.Element {
  const [top, setTop] = createSignal(0);
  const [height, setHeight] = createSignal(400);
  let host!: HTMLDivElement;

  const range = createMemo(
    () => {
      const first = Math.max(0, Math.floor(top() / props.rowHeight) - MARGIN);
      const count = Math.ceil(height() / props.rowHeight) + 2 * MARGIN;
      return { first, last: Math.min(props.items.length, first + count) };
    },
    undefined,
    { equals: (a, b) => a.first === b.first && a.last === b.last },
  );
  // Slots keep their elements while scrolling; only their positions change.
  const slots = createMemo<readonly number[]>((before) => {
    const count = Math.max(0, range().last - range().first);
    return before.length === count ? before : Array.from({ length: count }, (_, i) => i);
  }, []);

  onMount(() => {
    const resize = new ResizeObserver(() => {
      setHeight(host.clientHeight);
      if (props.follows) host.scrollTop = host.scrollHeight;
    });
    resize.observe(host);
    setHeight(host.clientHeight || 400);
    onCleanup(() => resize.disconnect());
    props.ref?.({
      element: host,
      reveal(index) {
        // Uses known sizes: measuring here would make the browser lay out the page.
        const [at, seen, room] = [index * props.rowHeight, untrack(top), untrack(height)];
        if (at < seen) host.scrollTop = at;
        else if (at + props.rowHeight > seen + room) {
          host.scrollTop = at + props.rowHeight - room;
        }
      },
      scrollToEnd() {
        host.scrollTop = host.scrollHeight;
      },
    });
  });

  return (
    <div
      ref={host}
      class={`vlist ${props.class ?? ""}`}
      {...props.attrs}
      onScroll={() => {
        // Read before the rows change: afterwards, reading makes the browser lay out the page.
        const { scrollTop, scrollHeight, clientHeight } = host;
        setTop(scrollTop);
        props.onScrolled?.(scrollHeight - clientHeight - scrollTop < props.rowHeight * 1.5);
      }}
      onKeyDown={(event) => props.onKeyDown?.(event)}
    >
      <div
        class="vlist-space"
        role="presentation"
        style={{ height: `${props.items.length * props.rowHeight}px` }}
      >
        <For each={slots()}>
          {(slot) => {
            const index = () => range().first + slot;
            const present = () => index() < props.items.length;
            return (
              <div
                class="vlist-slot"
                role="presentation"
                hidden={!present()}
                style={{ top: `${index() * props.rowHeight}px`, height: `${props.rowHeight}px` }}
              >
                {props.row(
                  () => props.items[Math.min(index(), props.items.length - 1)] as T,
                  index,
                )}
              </div>
            );
          }}
        </For>
      </div>
      {props.items.length === 0 ? props.empty : undefined}
    </div>
  );
}
