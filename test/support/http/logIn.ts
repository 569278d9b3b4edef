/** Logs in to the ops pages as a person does, and returns the header that a browser then sends. */
export async function logIn(url: string, password: string): Promise<{ Cookie: string }> {
  const body = new URLSearchParams({ password });
  const { headers, status } = await fetch(`${url}/ops/login`, { method: "POST", body, redirect: "manual" });
  if (status !== 303) throw new Error(`the login answers ${status}`);
  return {
    Cookie: headers
      .getSetCookie()
      .map((line) => line.split(";")[0])
      .join("; "),
  };
}
