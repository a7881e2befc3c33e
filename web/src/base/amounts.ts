/** Numbers of nodes, and how a colour scale takes them. */
export interface Amounts {
  /** By node id; nodes without one are drawn as off. */
  readonly values: ReadonlyMap<number, number>;
  /** For means, by node id; 1 if left out. */
  readonly weights?: ReadonlyMap<number, number> | undefined;
  /** What a folded scope has of the numbers in it. */
  readonly join: "mean" | "norm" | "largest" | "sum";
  /** The ends of the scale: linear from `least`, or, without it, three decades below `most`. */
  readonly least: number | undefined;
  readonly most: number;
  /** Colours of their own. */
  colour?: ((value: number) => string | undefined) | undefined;
}
