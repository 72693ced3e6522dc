/** Asynchronous data for components: the latest value or its error. */

import { effect } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";

export interface AsyncState<T> {
  readonly value: T | null; // null: not loaded, or an error
  readonly error: string | null;
}

/**
 * Calls `make`, again whenever a signal it read changes (read them before the first await) or `inputs` do. The previous
 * value stays until the new one is there; an error clears it. A slow result never replaces a newer one.
 */
export function useAsync<T>(make: () => Promise<T>, inputs: readonly unknown[] = []): AsyncState<T> {
  const [loaded, set] = useState<AsyncState<T>>({ value: null, error: null });
  useEffect(
    () =>
      effect(() => {
        let newest = true;
        make().then(
          (value) => newest && set({ value, error: null }),
          (error: unknown) => newest && set({ value: null, error: errorText(error) }),
        );
        return () => {
          newest = false;
        };
      }),
    inputs,
  );
  return loaded;
}

/** The message of an error. */
export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
