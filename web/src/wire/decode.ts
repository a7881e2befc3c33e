/**
 * Columns of bytes as typed arrays.
 *
 * Invariant: a column whose length does not match its count is refused, never read past its end;
 * the returned arrays are copies (msgpack's bytes are seldom aligned).
 */

import type { ExecutionColumns } from "@/wire/types.gen";

/**
 * Executions as typed arrays, one entry per row. `times` is empty in a live stream, `worker` and
 * `lane` if all of them are 0.
 */
export interface Executions {
  readonly count: number;
  readonly seq: Float64Array;
  readonly node: Uint32Array;
  readonly step: Uint32Array;
  readonly thread: Uint32Array;
  readonly startNs: Float64Array;
  readonly durationNs: Float64Array;
  readonly flags: Uint8Array;
  readonly times: Uint32Array;
  readonly worker: Uint32Array;
  readonly lane: Uint32Array;
}

export class DecodeError extends Error {}

function bytesOf(column: Uint8Array, name: string, wanted: number): ArrayBuffer {
  if (column.byteLength !== wanted) {
    throw new DecodeError(`column ${name} has ${column.byteLength} bytes instead of ${wanted}`);
  }
  const copy = new Uint8Array(wanted);
  copy.set(column);
  return copy.buffer;
}

type Numbers = Uint8Array | Uint16Array | Uint32Array | Float64Array;

/** A column whose numbers take as few bytes as the largest one needs; empty if all are 0. */
export function numbersIn(column: Uint8Array, name: string, count: number): Numbers {
  if (column.byteLength === 0) return new Uint8Array(count);
  const width = column.byteLength / Math.max(count, 1);
  const bytes = bytesOf(column, name, [1, 2, 4, 8].includes(width) ? width * count : count);
  if (width === 1) return new Uint8Array(bytes);
  if (width === 2) return new Uint16Array(bytes);
  return width === 4 ? new Uint32Array(bytes) : new Float64Array(bytes);
}

export function decodeExecutions(columns: ExecutionColumns): Executions {
  const n = columns.count;
  const f64 = (name: "seq" | "start_ns" | "duration_ns") =>
    Float64Array.from(numbersIn(columns[name], name, n));
  const u32 = (name: "node" | "step" | "thread") =>
    Uint32Array.from(numbersIn(columns[name], name, n));
  const u32OrNone = (name: "times" | "worker" | "lane") =>
    Uint32Array.from(numbersIn(columns[name], name, columns[name].byteLength === 0 ? 0 : n));
  return {
    count: n,
    seq: f64("seq"),
    node: u32("node"),
    step: u32("step"),
    thread: u32("thread"),
    startNs: f64("start_ns"),
    durationNs: f64("duration_ns"),
    flags: Uint8Array.from(numbersIn(columns.flags, "flags", n)),
    times: u32OrNone("times"),
    worker: u32OrNone("worker"),
    lane: u32OrNone("lane"),
  };
}

/** The elements of a `ValueSlice`, row by row. */
export function decodeElements(data: Uint8Array, count: number): Float64Array {
  return new Float64Array(bytesOf(data, "data", count * 8));
}

/** A column of float64. */
export function numbersOf(data: Uint8Array, count: number): Float64Array {
  return new Float64Array(bytesOf(data, "numbers", count * 8));
}

/** A column of ids, uint32. */
export function idsOf(data: Uint8Array, count: number): Uint32Array {
  return new Uint32Array(bytesOf(data, "ids", count * 4));
}
