/** The families of operations that the page has a colour for; any other is grey. */

export const FAMILIES = [
  "matmul",
  "elementwise",
  "activation",
  "reduction",
  "norm",
  "layout",
  "index",
  "random",
  "loss",
  "update",
  "control",
  "kernel",
  "communication",
  "other",
  "leaf",
] as const;
export type Family = (typeof FAMILIES)[number];
