/**
 * Where to go after signing in: a path of this server and nothing else. Browsers read `//host`, `/\host` and
 * paths with tabs or line ends in them as other places (open redirect).
 */

/** The path as a browser would ask for it; `/` for anything else. */
export function localPath(next: string | undefined): string {
  if (next === undefined || !/^\/(?![/\\])[\x21-\x5b\x5d-\x7e]*$/.test(next)) return '/'
  const base = 'http://belfry.invalid'
  if (!URL.canParse(next, base)) return '/'
  const url = new URL(next, base)
  const path = `${url.pathname}${url.search}${url.hash}`
  // "/.//host" comes out as "//host"
  return url.origin === base && !path.startsWith('//') ? path : '/'
}
