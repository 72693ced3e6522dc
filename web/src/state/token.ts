/** The token that lets this page ask its server; it stands in the fragment, which browsers never send. */

export function token(): string {
  return new URLSearchParams(location.hash.slice(1)).get("token") ?? "";
}
