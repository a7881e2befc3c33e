import { resolve } from "node:path";
import { defineConfig } from "vite";
import solid from "vite-plugin-solid";

const source = resolve(import.meta.dirname, "src");

export default defineConfig({
  plugins: [solid()],
  resolve: { alias: { "@": source } },
  base: "./",
  worker: { format: "es" },
  build: {
    outDir: process.env.NODESCOPE_WEB_OUT ?? resolve(import.meta.dirname, "dist"),
    emptyOutDir: true,
    target: "es2023",
    assetsInlineLimit: 0,
    sourcemap: false,
    // The page is served from the user's machine: large chunks cost no download.
    chunkSizeWarningLimit: 800,
    reportCompressedSize: false,
    rolldownOptions: { checks: { pluginTimings: false } },
  },
  server: { proxy: { "/api": { target: "http://127.0.0.1:7711", ws: true } } },
  // Each file gets a VM context in reused threads: a thread with jsdom for each file costs seconds.
  test: { environment: "jsdom", pool: "vmThreads", include: ["src/**/*.test.{ts,tsx}"] },
} as Parameters<typeof defineConfig>[0]);
