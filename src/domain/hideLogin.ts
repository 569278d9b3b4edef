/** A scheme, and everything up to the last @: a password may contain any character. */
const LOGIN = /(^|,)(\s*[a-z][a-z0-9+.-]+:\/*)[^]*@/i;
const QUERY = /^([^?#]*:\/\/[^?#]*)[?#][^]*/;

/** The text without the parts of an address that may be secret: user and password, query and fragment. */
export function hideLogin(text: string): string {
  return text.replace(LOGIN, "$1$2…@").replace(QUERY, "$1?…");
}
