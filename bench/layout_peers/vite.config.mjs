/** Bundles `measure.mjs` with the page's layout; dagre and ELK are loaded from beside it. */

import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));

export default {
  root: here,
  logLevel: "warn",
  resolve: { alias: { "@": fileURLToPath(new URL("../../web/src", import.meta.url)) } },
  build: {
    ssr: "measure.mjs",
    outDir: "node_modules/.built",
    rollupOptions: { external: ["@dagrejs/dagre", /^elkjs/] },
  },
};
