/**
 * State per node in typed-array columns, and the last executions in a ring.
 *
 * Invariant: index = node id; rows are written in order of seq, so that the last one remains. These
 * are the only mutable data of the store; changes are announced by the store's tick.
 */

import type { Executions } from "@/wire/decode";

/** The latest execution of each node, up to one moment. */
export class NodeColumns {
  times = new Uint32Array(0);
  step = new Uint32Array(0);
  durationNs = new Float64Array(0);
  flags = new Uint8Array(0);
  seq = new Float64Array(0);
  startNs = new Float64Array(0);
  thread = new Uint32Array(0);
  worker = new Uint32Array(0);
  lane = new Uint32Array(0);
  /** Highest seq written so far. */
  lastSeq = 0;
  /** Node of the row with the highest seq; 0 = none. */
  lastNode = 0;

  get size(): number {
    return this.times.length;
  }

  /** Makes room for ids up to and including `id`. */
  reserve(id: number): void {
    if (id < this.times.length) return;
    const size = Math.max(64, id + 1, this.times.length * 2);
    this.times = grown(this.times, new Uint32Array(size));
    this.step = grown(this.step, new Uint32Array(size));
    this.durationNs = grown(this.durationNs, new Float64Array(size));
    this.flags = grown(this.flags, new Uint8Array(size));
    this.seq = grown(this.seq, new Float64Array(size));
    this.startNs = grown(this.startNs, new Float64Array(size));
    this.thread = grown(this.thread, new Uint32Array(size));
    this.worker = grown(this.worker, new Uint32Array(size));
    this.lane = grown(this.lane, new Uint32Array(size));
  }

  /** Writes rows. Rows without `times` count one more execution each; rows seen before do not. */
  apply(rows: Executions): void {
    const counted = rows.times.length === rows.count;
    for (let i = 0; i < rows.count; i++) {
      const node = rows.node[i] ?? 0;
      const seq = rows.seq[i] ?? 0;
      this.reserve(node);
      if (seq <= (this.seq[node] ?? 0)) continue;
      this.seq[node] = seq;
      this.times[node] = counted ? (rows.times[i] ?? 0) : (this.times[node] ?? 0) + 1;
      this.step[node] = rows.step[i] ?? 0;
      this.durationNs[node] = rows.durationNs[i] ?? 0;
      this.flags[node] = rows.flags[i] ?? 0;
      this.startNs[node] = rows.startNs[i] ?? 0;
      this.thread[node] = rows.thread[i] ?? 0;
      this.worker[node] = rows.worker[i] ?? 0;
      this.lane[node] = rows.lane[i] ?? 0;
      if (seq > this.lastSeq) {
        this.lastSeq = seq;
        this.lastNode = node;
      }
    }
  }

  /** Replaces the rows of these nodes; the nodes of `gone` have not run. */
  replace(rows: Executions, gone: readonly number[]): void {
    for (const column of this.all()) {
      for (let i = 0; i < rows.count; i++) column[rows.node[i] ?? 0] = 0;
      for (const node of gone) column[node] = 0;
    }
    this.apply(rows);
    this.lastSeq = 0;
    this.lastNode = 0;
    this.seq.forEach((seq, node) => {
      if (seq <= this.lastSeq) return;
      this.lastSeq = seq;
      this.lastNode = node;
    });
  }

  clear(): void {
    for (const column of this.all()) column.fill(0);
    this.lastSeq = 0;
    this.lastNode = 0;
  }

  private all(): readonly (Uint8Array | Uint32Array | Float64Array)[] {
    return [
      this.times,
      this.step,
      this.durationNs,
      this.flags,
      this.seq,
      this.startNs,
      this.thread,
      this.worker,
      this.lane,
    ];
  }
}

function grown<T extends Uint8Array | Uint32Array | Float64Array>(from: T, to: T): T {
  to.set(from as never);
  return to;
}

/** The last executions that arrived live, oldest first; the timeline draws them while running. */
export class ExecutionRing {
  readonly seq: Float64Array;
  readonly node: Uint32Array;
  readonly step: Uint32Array;
  readonly thread: Uint32Array;
  readonly worker: Uint32Array;
  readonly lane: Uint32Array;
  readonly startNs: Float64Array;
  readonly durationNs: Float64Array;
  readonly flags: Uint8Array;
  /** Number of rows ever written. */
  total = 0;

  constructor(readonly capacity = 32_768) {
    this.seq = new Float64Array(capacity);
    this.node = new Uint32Array(capacity);
    this.step = new Uint32Array(capacity);
    this.thread = new Uint32Array(capacity);
    this.worker = new Uint32Array(capacity);
    this.lane = new Uint32Array(capacity);
    this.startNs = new Float64Array(capacity);
    this.durationNs = new Float64Array(capacity);
    this.flags = new Uint8Array(capacity);
  }

  get length(): number {
    return Math.min(this.total, this.capacity);
  }

  append(rows: Executions): void {
    for (let i = Math.max(0, rows.count - this.capacity); i < rows.count; i++) {
      const at = this.total++ % this.capacity;
      this.seq[at] = rows.seq[i] ?? 0;
      this.node[at] = rows.node[i] ?? 0;
      this.step[at] = rows.step[i] ?? 0;
      this.thread[at] = rows.thread[i] ?? 0;
      this.worker[at] = rows.worker[i] ?? 0;
      this.lane[at] = rows.lane[i] ?? 0;
      this.startNs[at] = rows.startNs[i] ?? 0;
      this.durationNs[at] = rows.durationNs[i] ?? 0;
      this.flags[at] = rows.flags[i] ?? 0;
    }
  }

  /** Index into the columns of the `i`-th kept row, oldest first. */
  at(i: number): number {
    return this.total <= this.capacity ? i : (this.total + i) % this.capacity;
  }

  clear(): void {
    this.total = 0;
  }
}
