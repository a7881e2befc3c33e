/** The families of operations with a colour on the page; any other is grey. */

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
  "task",
  "actor",
  "other",
  "leaf",
] as const;
export type Family = (typeof FAMILIES)[number];
