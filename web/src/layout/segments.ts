/**
 * The pieces of edges inside groups, in columns: as objects, they would be a third of the memory of
 * a large graph in the layout.
 *
 * Invariant: the segments of a group are in the order in which they were added.
 */

/** A piece of an edge inside one group; ends are item keys of the hierarchy. */
export interface Segment {
  readonly from: number;
  readonly to: number;
  readonly value: number;
}

type Numbers = Int32Array | Float64Array;

/** Segments by group: those of group g are `start[g]` to `start[g + 1] - 1`. */
export class Segments {
  constructor(
    private readonly start: Int32Array,
    private readonly from: Numbers,
    private readonly to: Numbers,
    private readonly value: Numbers,
  ) {}

  /** The segments of a group, as objects made for the caller. */
  of(group: number): Segment[] {
    const begin = this.start[group] ?? 0;
    const end = this.start[group + 1] ?? begin;
    const { from, to, value } = this;
    const list: Segment[] = [];
    for (let k = begin; k < end; k++) list.push({ from: from[k]!, to: to[k]!, value: value[k]! });
    return list;
  }
}

const NONE = new Int32Array(0);

export const NO_SEGMENTS = new Segments(NONE, NONE, NONE, NONE);

/** Whole numbers, in as few bytes as the largest so far needs. */
class Column {
  numbers: Numbers = new Int32Array(1024);
  length = 0;

  push(number: number): void {
    if (number > 0x7fffffff && this.numbers instanceof Int32Array) {
      this.numbers = Float64Array.from(this.numbers);
    }
    if (this.length === this.numbers.length) {
      const { numbers } = this;
      const Kind = numbers.constructor as new (size: number) => Numbers;
      this.numbers = new Kind(2 * numbers.length);
      this.numbers.set(numbers);
    }
    this.numbers[this.length++] = number;
  }

  /** The number at `places[k]`, for each k. */
  at(places: Int32Array): Numbers {
    const Kind = this.numbers.constructor as new (size: number) => Numbers;
    const sorted = new Kind(places.length);
    for (let k = 0; k < places.length; k++) sorted[k] = this.numbers[places[k]!]!;
    return sorted;
  }
}

/** Segments in the order in which they are found. */
export class SegmentList {
  private readonly group = new Column();
  private readonly from = new Column();
  private readonly to = new Column();
  private readonly value = new Column();

  add(group: number, from: number, to: number, value: number): void {
    this.group.push(group);
    this.from.push(from);
    this.to.push(to);
    this.value.push(value);
  }

  /** The segments by group. Args: count: The number of groups. */
  sorted(count: number): Segments {
    const { length, numbers: groups } = this.group;
    const start = new Int32Array(count + 1);
    for (let at = 0; at < length; at++) start[groups[at]! + 1]! += 1;
    for (let group = 0; group < count; group++) start[group + 1]! += start[group]!;
    const next = start.slice();
    const places = new Int32Array(length);
    for (let at = 0; at < length; at++) places[next[groups[at]!]!++] = at;
    return new Segments(start, this.from.at(places), this.to.at(places), this.value.at(places));
  }
}
