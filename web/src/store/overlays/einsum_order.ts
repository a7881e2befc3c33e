/**
 * The order in which `einsum` multiplies three or more factors: pair by pair, as chosen by NumPy's
 * greedy `einsum_path`, which nodescope's engine uses.
 *
 * Invariant: the count covers the operations of all steps, and is always defined.
 */

export type Sizes = ReadonlyMap<string, number>;

interface Pair {
  /** NumPy's criteria: the most elements saved, then the fewest operations. */
  readonly saved: number;
  readonly cost: number;
  readonly places: readonly [number, number];
  readonly terms: readonly string[];
}

/** A step takes, for each combination of its indices, a sum and a product per factor but one. */
export function operationsOf(terms: readonly string[], output: string, sizes: Sizes): number {
  let left = [...terms];
  let operations = 0;
  for (const step of stepsOf(terms, output, sizes)) {
    const used = factors(left, step);
    operations += step.length * size(used, sizes);
    left = joined(left, step, output);
  }
  return operations;
}

/** The steps as positions in the remaining terms; each product is appended to these terms. */
function stepsOf(terms: readonly string[], output: string, sizes: Sizes): readonly number[][] {
  const all = terms.map((_, place) => place);
  // If no index is summed over, all factors are multiplied at once.
  if (letters(terms.join("")).every((letter) => output.includes(letter))) return [all];
  const most = Math.max(...[...terms, output].map((term) => size(term, sizes)));
  const whole = flops(terms, all, output, sizes);
  const steps: number[][] = [];
  let left = terms;
  let spent = 0;
  let known: Pair[] = [];
  let places = pairs(left.length);
  while (left.length > 1) {
    const tried = (outer: boolean, at: readonly (readonly [number, number])[]): Pair[] =>
      at
        .filter(([a, b]) => outer || shared(left[a], left[b]))
        .map((pair) => paired(left, pair, output, sizes))
        .filter(
          ({ terms: after, cost }) => size(after.at(-1), sizes) <= most && spent + cost <= whole,
        );
    known.push(...tried(false, places));
    if (known.length === 0) known = tried(true, pairs(left.length));
    if (known.length === 0) {
      steps.push(left.map((_, place) => place));
      break;
    }
    const best = known.reduce((a, b) =>
      b.saved > a.saved || (b.saved === a.saved && b.cost < a.cost) ? b : a,
    );
    known = known.flatMap((pair) => after(pair, best));
    left = best.terms;
    spent += best.cost;
    steps.push([...best.places]);
    const last = left.length - 1;
    places = Array.from({ length: last }, (_, place) => [place, last] as const);
  }
  return steps;
}

function pairs(count: number): (readonly [number, number])[] {
  const list: (readonly [number, number])[] = [];
  for (let a = 0; a < count; a++) for (let b = a + 1; b < count; b++) list.push([a, b]);
  return list;
}

function paired(
  left: readonly string[],
  places: readonly [number, number],
  output: string,
  sizes: Sizes,
): Pair {
  const terms = joined(left, places, output);
  const before = size(left[places[0]], sizes) + size(left[places[1]], sizes);
  const saved = before - size(terms.at(-1), sizes);
  return { saved, cost: flops(left, places, output, sizes), places, terms };
}

/** A pair tried before `best` was multiplied, updated for after; none if the two share a factor. */
function after(pair: Pair, best: Pair): Pair[] {
  const [a, b] = best.places;
  const [x, y] = pair.places;
  if (x === a || x === b || y === a || y === b) return [];
  const moved = (place: number) => place - Number(place > a) - Number(place > b);
  const terms = [...pair.terms];
  terms.splice(b - Number(b > x) - Number(b > y), 1);
  terms.splice(a - Number(a > x) - Number(a > y), 1);
  terms.splice(terms.length - 1, 0, best.terms.at(-1) ?? "");
  return [{ ...pair, places: [moved(x), moved(y)], terms }];
}

/** The terms that remain when those at some positions are multiplied. */
function joined(left: readonly string[], places: readonly number[], output: string): string[] {
  const rest = left.filter((_, place) => !places.includes(place));
  const needed = output + rest.join("");
  const used = letters(factors(left, places));
  return [...rest, used.filter((letter) => needed.includes(letter)).join("")];
}

/** NumPy's estimate of the operations of a step. */
function flops(
  left: readonly string[],
  places: readonly number[],
  output: string,
  sizes: Sizes,
): number {
  const used = letters(factors(left, places));
  const summed = used.length > (joined(left, places, output).at(-1)?.length ?? 0);
  return size(used.join(""), sizes) * (Math.max(1, places.length - 1) + Number(summed));
}

function factors(left: readonly string[], places: readonly number[]): string {
  return places.map((place) => left[place] ?? "").join("");
}

function shared(a = "", b = ""): boolean {
  return letters(a).some((letter) => b.includes(letter));
}

function letters(term: string): string[] {
  return [...new Set(term)];
}

function size(term = "", sizes: Sizes): number {
  return letters(term).reduce((product, letter) => product * (sizes.get(letter) ?? 1), 1);
}
