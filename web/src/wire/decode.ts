/**
 * Columns of bytes as typed arrays.
 *
 * Invariant: a column shorter than its count is refused, never read past its end; the returned
 * arrays are copies (msgpack's bytes are seldom aligned).
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

export function decodeExecutions(columns: ExecutionColumns): Executions {
  const n = columns.count;
  const f64 = (name: "seq" | "start_ns" | "duration_ns") =>
    new Float64Array(bytesOf(columns[name], name, n * 8));
  const u32 = (name: "node" | "step" | "thread") =>
    new Uint32Array(bytesOf(columns[name], name, n * 4));
  const u32OrNone = (name: "times" | "worker" | "lane") =>
    new Uint32Array(bytesOf(columns[name], name, columns[name].byteLength === 0 ? 0 : n * 4));
  return {
    count: n,
    seq: f64("seq"),
    node: u32("node"),
    step: u32("step"),
    thread: u32("thread"),
    startNs: f64("start_ns"),
    durationNs: f64("duration_ns"),
    flags: new Uint8Array(bytesOf(columns.flags, "flags", n)),
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
