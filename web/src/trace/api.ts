/** Requests to the server: each carries the token of the page's address and its language; an error response is thrown as an Error. */

import { t } from "../i18n/i18n";
import { language } from "../state/state";

export async function api(path: string, init: RequestInit = {}): Promise<Response> {
  if (document.getElementById("trace")) // of a saved page
    throw new Error(t({ ko: "jumok view에만 있습니다", en: "only with jumok view" }));
  const response = await fetch(path, {
    ...init,
    headers: { ...(init.headers as Record<string, string> | undefined), "X-Jumok-Token": token(), "Accept-Language": language.value },
  }).catch(() => {
    throw new Error(t({ ko: "서버의 응답이 없습니다. jumok view가 실행 중인지 확인하세요.", en: "no response from the server; check that jumok view is still running" }));
  });
  if (response.ok) return response;
  const body = (await response.json().catch(() => ({}))) as { error?: string };
  throw new Error(body.error ?? `request failed: ${response.status} ${response.statusText}`);
}

/** Sends JSON. */
export function post(path: string, body: unknown): Promise<Response> {
  return api(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
}

/** The token that authorises the page; it is in the fragment of the address, which browsers never send. */
function token(): string {
  return new URLSearchParams(location.hash.slice(1)).get("token") ?? "";
}
