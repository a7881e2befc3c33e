/** Numbers of nodes, and how a colour scale shows them. */
export interface Amounts {
  /** By node id; nodes without one are drawn as off. */
  readonly values: ReadonlyMap<number, number>;
  /** Weights for means, by node id; 1 if left out. */
  readonly weights?: ReadonlyMap<number, number> | undefined;
  /** How the number of a folded scope is joined from the numbers in it. */
  readonly join: "mean" | "norm" | "largest" | "sum";
  /** The ends of the scale: linear from `least`, or, without it, three decades below `most`. */
  readonly least: number | undefined;
  readonly most: number;
  /** The colour of a value if it is not the scale's. */
  colour?: ((value: number) => string | undefined) | undefined;
}
