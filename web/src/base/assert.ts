/**
 * Compile-time checks.
 *
 * Invariant: this code is never reached in a program that type-checks and uses the same protocol.
 */

/** Fails to compile if a union has an unhandled member. */
export function assertNever(value: never): never {
  throw new Error(`unexpected ${JSON.stringify(value)}`);
}
