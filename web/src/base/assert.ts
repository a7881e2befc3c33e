/**
 * Checks that the compiler makes.
 *
 * Invariant: nothing here is reached in a program that type-checks and speaks the same protocol.
 */

/** Fails to compile where a union has a member that was not handled. */
export function assertNever(value: never): never {
  throw new Error(`unexpected ${JSON.stringify(value)}`);
}
