import { defineConfig } from "vite";

// Names without hashes: a rebuild of the same sources gives the same files.
export default defineConfig({
  base: "./",
  esbuild: { jsx: "automatic", jsxImportSource: "preact" },
  build: {
    outDir: "../src/holdfast/web/static",
    emptyOutDir: true,
    modulePreload: false,
    rollupOptions: {
      output: { entryFileNames: "assets/app.js", assetFileNames: "assets/[name][extname]", inlineDynamicImports: true },
    },
  },
  server: { proxy: { "/api": "http://127.0.0.1:8180" } },
});
