/**
 * The search over a graph: terms of plain text, found in names, or `key:value`. A node must match
 * all terms.
 *
 * Invariant: pure, in time linear in the nodes; a term that cannot be parsed is reported and left
 * out, and the user's text never becomes a regular expression.
 */

import type { Size } from "@/base/dtypes";
import { listed } from "@/base/numbers";
import type { NodeColumns } from "@/store/run/columns";
import { flagsOf, isOperation } from "@/store/run/counts";
import type { RunGraph } from "@/store/run/run_model";
import type { Tree, TreeEntry } from "@/store/run/tree";
import { shapeOf, typeOf } from "@/wire/spec";
import { HAS_INF, HAS_NAN, type Node } from "@/wire/types.gen";

/** What is searched: the graph, and the executions of the moment shown. */
export interface Searched {
  readonly graph: RunGraph;
  readonly columns: NodeColumns;
  readonly step: number;
}

type Test = (node: Node) => boolean;

interface Term {
  /** Called once per search, because some terms compare nodes with all others. */
  prepare(all: Searched): Test;
  /** The key of a term that looks like `key:value` but has an unknown key. */
  readonly foreign?: string;
}

export interface Query {
  readonly terms: readonly Term[];
  /** Messages about terms that could not be parsed. */
  readonly problems: readonly string[];
  /** Whether the matches can change with each execution. */
  readonly live: boolean;
}

export interface SearchWord {
  readonly word: string;
  readonly example: string;
  readonly finds: string;
}

/** The keys of the search, as the page explains them. */
export const SEARCH_WORDS: readonly SearchWord[] = [
  { word: "op:", example: "op:matmul", finds: "operations of a kind" },
  { word: "scope:", example: "scope:block_*/attn", finds: "nodes in a scope" },
  { word: "family:", example: "family:loss", finds: "a family of operations" },
  { word: "phase:", example: "phase:backward", finds: "such as backward" },
  { word: "shape:", example: "shape:64x*", finds: "an output: 64x*, **x10" },
  { word: "dtype:", example: "dtype:f16", finds: "an output's dtype" },
  { word: "nan:", example: "nan:true", finds: "NaN or Inf; inf: only Inf" },
  { word: "slow:", example: "slow:10, slow:5%, slow:1ms", finds: "the slowest; a share; a time" },
  { word: "-", example: "-op:add", finds: "not that" },
];

const PHASES = ["forward", "backward", "optimizer", "recompute", "other"];

/** Parses a search; undefined for an empty one. */
export function parseQuery(text: string): Query | undefined {
  const parts = text.trim().toLowerCase().replace(/,\s+/g, ",").split(/\s+/).filter(Boolean);
  if (parts.length === 0) return undefined;
  const terms: Term[] = [];
  const problems: string[] = [];
  for (const part of parts) {
    const term = signedTerm(part);
    if (typeof term === "string") problems.push(term);
    else if (term !== undefined) terms.push(term);
  }
  const live = parts.some((part) => /^-?(nan|inf|slow):/.test(part));
  return { terms, problems, live };
}

/** The test whether the node with an id matches the query. */
export function matcherOf(query: Query, all: Searched): (id: number) => boolean {
  const tests = query.terms.map((term) => term.prepare(all));
  if (tests.length === 0 && query.problems.length > 0) return () => false;
  const { nodes } = all.graph;
  return (id) => {
    const node = nodes[id];
    return node !== undefined && tests.every((test) => test(node));
  };
}

/** The messages about a search. Args: nothing: Whether the search found nothing. */
export function problemsOf({ terms, problems }: Query, nothing: boolean): readonly string[] {
  const foreign = nothing ? terms.flatMap((term) => term.foreign ?? []) : [];
  const words = SEARCH_WORDS.map(({ word }) => word).filter((word) => word !== "-");
  return [
    ...problems,
    ...foreign.map((word) => `${word} is none of ${listed(words)}, and in no name.`),
  ];
}

const orders = new WeakMap<Tree, readonly number[]>();

/** The ids of all nodes in the graph's order, from the top of the outline to its end. */
export function graphOrder(tree: Tree): readonly number[] {
  const known = orders.get(tree);
  if (known !== undefined) return known;
  const order: number[] = [];
  const visit = (entry: TreeEntry): void => {
    if (entry.kind === "node") order.push(entry.id);
    else entry.children.forEach(visit);
  };
  visit(tree.root);
  orders.set(tree, order);
  return order;
}

/** A term, negated by a minus; a message if it cannot be parsed; undefined if it is unfinished. */
function signedTerm(part: string): Term | string | undefined {
  if (!part.startsWith("-")) return termOf(part);
  const term = part === "-" ? undefined : termOf(part.slice(1));
  if (term === undefined || typeof term === "string") return term;
  return {
    ...term,
    prepare: (all) => {
      const test = term.prepare(all);
      return (node) => !test(node);
    },
  };
}

function plain(test: Test): Term {
  return { prepare: () => test };
}

function termOf(part: string): Term | string | undefined {
  const cut = part.indexOf(":");
  const key = part.slice(0, Math.max(0, cut));
  const wanted = part.slice(cut + 1);
  switch (key) {
    case "":
      return plain((node) => like(node.name, part));
    case "op":
      return plain((node) => like(node.op, wanted) || like(node.native, wanted));
    case "family":
      return plain((node) => like(node.family, wanted));
    case "scope":
      return plain((node) => like(node.scope, wanted));
    case "phase":
      if (!wanted.includes("*") && !PHASES.some((phase) => phase.includes(wanted))) {
        return `phase: is ${listed(PHASES).replace(" and ", " or ")}, not ${wanted}.`;
      }
      return plain((node) => like(node.phase, wanted));
    case "dtype":
      return dtypeTerm(wanted);
    case "shape":
      return shapeTerm(wanted);
    case "nan":
      return flagTerm("nan", wanted, HAS_NAN | HAS_INF);
    case "inf":
      return flagTerm("inf", wanted, HAS_INF);
    case "slow":
      return slowTerm(wanted);
    default:
      return {
        ...plain((node) => like(node.name, part)),
        ...(/^[a-z]+$/.test(key) ? { foreign: `${key}:` } : {}),
      };
  }
}

const ANSWERS: Readonly<Record<string, boolean>> = {
  "": true,
  true: true,
  yes: true,
  1: true,
  false: false,
  no: false,
  0: false,
};

function flagTerm(key: string, wanted: string, bits: number): Term | string | undefined {
  const has = ANSWERS[wanted];
  if (has === undefined) {
    const unfinished = ["true", "yes", "false", "no"].some((word) => word.startsWith(wanted));
    return unfinished ? undefined : `${key}: is true or false, not ${wanted}.`;
  }
  return {
    prepare:
      ({ columns, step }) =>
      (node) =>
        ((flagsOf(node, columns, step) & bits) !== 0) === has,
  };
}

const DTYPES: Readonly<Record<string, string>> = {
  f16: "float16",
  half: "float16",
  bf16: "bfloat16",
  f32: "float32",
  f64: "float64",
  double: "float64",
  i8: "int8",
  i16: "int16",
  i32: "int32",
  i64: "int64",
  long: "int64",
  u8: "uint8",
  u16: "uint16",
  u32: "uint32",
  u64: "uint64",
  c64: "complex64",
  c128: "complex128",
};
const WHOLE_DTYPES: ReadonlySet<string> = new Set(Object.values(DTYPES));

function dtypeTerm(given: string): Term {
  const wanted = DTYPES[given] ?? given;
  // A complete dtype must match exactly: `int8` is a part of `uint8`, `float16` of `bfloat16`.
  const whole = WHOLE_DTYPES.has(wanted);
  const fits = (dtype: string) => (whole ? dtype.toLowerCase() === wanted : like(dtype, wanted));
  return {
    prepare:
      ({ graph }) =>
      (node) =>
        node.outputs.some((id) => {
          const spec = graph.values.get(id)?.value.spec;
          return spec !== undefined && fits(typeOf(spec));
        }),
  };
}

type SizePattern = Size | "one" | "any";

function shapeTerm(wanted: string): Term | string {
  const pattern = shapePattern(wanted);
  if (typeof pattern === "string") return pattern;
  return {
    prepare:
      ({ graph }) =>
      (node) =>
        node.outputs.some((id) => {
          const spec = graph.values.get(id)?.value.spec;
          if (spec === undefined || spec.kind !== "tensor") return false;
          return fitsShape(shapeOf(spec) ?? [], pattern);
        }),
  };
}

/** The sizes wanted, or a message. After a final `x`, the pattern is unfinished and open-ended. */
function shapePattern(text: string): readonly SizePattern[] | string {
  if (text === "") return ["any"];
  if (text === "scalar" || text === "()" || text === "[]") return [];
  const pattern: SizePattern[] = [];
  const parts = text.replace(/^[[(]|,?[\])]$/g, "").split(/[x×,]/);
  for (const [at, part] of parts.entries()) {
    if (part === "**" || part === "…" || (part === "" && at === parts.length - 1)) {
      pattern.push("any");
    } else if (part === "*") pattern.push("one");
    else if (part === "?") pattern.push(null);
    else if (/^\d{1,15}$/.test(part)) pattern.push(Number(part));
    else if (!"scalar".startsWith(text)) {
      return `shape: takes sizes, as in 64x*x3 (* is one size, ** any number), not ${part || "x"}.`;
    } else return ["any"];
  }
  return pattern;
}

function fitsShape(shape: readonly Size[], pattern: readonly SizePattern[], from = 0): boolean {
  for (const [at, wanted] of pattern.entries()) {
    if (wanted === "any") {
      const rest = pattern.slice(at + 1);
      for (let skip = from + at; skip <= shape.length; skip++) {
        if (fitsShape(shape, rest, skip)) return true;
      }
      return false;
    }
    if (from + at >= shape.length) return false;
    if (wanted !== "one" && wanted !== shape[from + at]) return false;
  }
  return from + pattern.length === shape.length;
}

const UNITS: Readonly<Record<string, number>> = {
  ns: 1,
  us: 1e3,
  µs: 1e3,
  μs: 1e3,
  ms: 1e6,
  s: 1e9,
};
const SLOWEST = 10;

/** Matches the slowest n operations, or those that take at least a share of all time, or a time. */
function slowTerm(wanted: string): Term | string | undefined {
  const [, digits = "", unit = ""] = /^(\d*\.?\d*)([a-zµμ%]*)$/.exec(wanted) ?? [];
  const amount = digits === "" ? SLOWEST : Number(digits);
  const known = unit === "" || unit === "%" || UNITS[unit] !== undefined;
  if (digits + unit !== wanted || !known || Number.isNaN(amount)) {
    const unfinished = Object.keys(UNITS).some((other) => other.startsWith(unit));
    if (digits !== "" && unit !== "" && digits + unit === wanted && unfinished) return undefined;
    return `slow: takes a count (10), a share (5%) or a time (1ms), not ${wanted}.`;
  }
  return {
    prepare: ({ graph, columns }) => {
      const timeOf = (node: Node | undefined): number =>
        isOperation(node) ? (columns.durationNs[node?.id ?? -1] ?? 0) : 0;
      const least = leastTime(Float64Array.from(graph.nodes, timeOf), amount, unit);
      return (node) => timeOf(node) > 0 && timeOf(node) >= least;
    },
  };
}

function leastTime(times: Float64Array, amount: number, unit: string): number {
  if (unit === "%") return (times.reduce((sum, ns) => sum + ns, 0) * amount) / 100;
  if (unit !== "") return amount * (UNITS[unit] ?? 1);
  // A typed array sorts its numbers many times faster than a comparison function.
  const slowest = times.filter((ns) => ns > 0).sort();
  return amount < 1 ? Infinity : (slowest[Math.max(0, slowest.length - Math.floor(amount))] ?? 0);
}

function like(text: string, wanted: string): boolean {
  const lower = text.toLowerCase();
  if (!wanted.includes("*")) return lower.includes(wanted);
  const pieces = wanted.split("*");
  let at = 0;
  for (const [index, piece] of pieces.entries()) {
    const foundAt = lower.indexOf(piece, at);
    if (foundAt < 0 || (index === 0 && foundAt !== 0)) return false;
    at = foundAt + piece.length;
  }
  return wanted.endsWith("*") || at === lower.length || lower.endsWith(pieces.at(-1) ?? "");
}
