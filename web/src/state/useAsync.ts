/** What is fetched for a view: the newest that has come, and what went wrong. */

import { effect } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";

export interface AsyncState<T> {
  readonly value: T | null; // null: not yet, or an error
  readonly error: string | null;
}

/**
 * Fetches with `make`, again whenever a signal it read changes (read them before the first await) or `inputs` do;
 * until the new value is there the old one stays; an error takes it away. A slow answer never replaces a newer one.
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

/** What an error says. */
export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
