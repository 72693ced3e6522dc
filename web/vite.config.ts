import preact from "@preact/preset-vite";
import { defineConfig } from "vitest/config";

// One script and one stylesheet with fixed names: the Python server serves them and exported pages embed them.
export default defineConfig({
  plugins: [preact()],
  build: {
    outDir: "../src/jumok/viewer/static",
    emptyOutDir: false,
    target: "es2022",
    sourcemap: false,
    cssCodeSplit: false,
    modulePreload: false,
    rollupOptions: {
      input: "src/main.tsx",
      output: { format: "iife", entryFileNames: "app.js", assetFileNames: "app.[ext]" },
    },
  },
  test: { environment: "happy-dom", include: ["src/**/*.test.{ts,tsx}"], setupFiles: ["src/testing/seed.ts"] },
});
