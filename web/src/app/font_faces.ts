/**
 * The page's fonts as data, for exported pictures.
 *
 * Invariant: never fails; a picture without fonts is drawn with the viewer's own.
 */

const FONTS = [
  { family: "Inter NS", file: "inter.woff2" },
  { family: "JetBrains Mono NS", file: "jetbrains-mono.woff2" },
] as const;

/** CSS that contains the fonts. */
export async function fontFaces(): Promise<string> {
  const faces = await Promise.all(
    FONTS.map(async ({ family, file }) => {
      try {
        const answer = await fetch(`/fonts/${file}`);
        if (!answer.ok) return "";
        const data = base64(new Uint8Array(await answer.arrayBuffer()));
        const source = `url(data:font/woff2;base64,${data})`;
        return `@font-face{font-family:"${family}";font-weight:400 650;src:${source}}`;
      } catch {
        return "";
      }
    }),
  );
  return faces.join("");
}

function base64(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}
