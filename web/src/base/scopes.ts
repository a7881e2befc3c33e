/**
 * Scope paths: slash-separated names, "" at the top. The same reading as `nodescope.ir.scopes`.
 *
 * Invariant: pure string functions.
 */

/** The enclosing scope: `parentScope("a/b")` is `"a"`; the top is its own parent. */
export function parentScope(scope: string): string {
  const cut = scope.lastIndexOf("/");
  return cut < 0 ? "" : scope.slice(0, cut);
}

/** The last part of a path or name. */
export function leafName(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

/** Whether `scope` is `ancestor` or lies inside it. Everything lies inside the top. */
export function isWithin(scope: string, ancestor: string): boolean {
  return ancestor === "" || scope === ancestor || scope.startsWith(`${ancestor}/`);
}

/** `ancestors("a/b")` is `["a", "a/b"]`. */
export function ancestors(scope: string): string[] {
  if (scope === "") return [];
  const paths: string[] = [];
  for (let at = scope.indexOf("/"); at >= 0; at = scope.indexOf("/", at + 1)) {
    paths.push(scope.slice(0, at));
  }
  paths.push(scope);
  return paths;
}
