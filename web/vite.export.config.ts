// The bundle that draws the page's picture without a page: layout and SVG painter, no DOM.
import { resolve } from "node:path";
import { defineConfig } from "vite";

export default defineConfig({
  resolve: { alias: { "@": resolve(import.meta.dirname, "src") } },
  build: {
    outDir: process.env.NODESCOPE_WEB_OUT ?? resolve(import.meta.dirname, "dist"),
    emptyOutDir: false,
    copyPublicDir: false,
    target: "es2022",
    lib: {
      entry: resolve(import.meta.dirname, "src/render/paint/export_entry.ts"),
      name: "nodescopeExport",
      formats: ["iife"],
      fileName: () => "export.js",
    },
  },
});
