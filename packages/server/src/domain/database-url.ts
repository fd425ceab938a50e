/**
 * A connection string of Postgres that may name several hosts, as psql takes it: `h1:5432,h2:5433` or
 * `?host=h1,h2&port=5432,5433`, and `target_session_attrs`, which of them is wanted. Pure. It imports
 * nothing, because the thread that keeps a lease reads it too.
 */

const attributes = ['any', 'read-write', 'read-only', 'primary', 'standby', 'prefer-standby'] as const
export type WantedServer = (typeof attributes)[number]

export interface DatabaseHosts {
  /** Each a connection string of one host, in the order in which they are written. */
  readonly urls: readonly string[]
  /** Undefined where the string does not say. */
  readonly wanted: WantedServer | undefined
}

/** In words that follow the name of the setting. */
export interface UrlFault {
  readonly fault: string
}

const notPostgres: UrlFault = {
  fault:
    'is not a Postgres URL; write it like postgres://user@host:5432/belfry, ' +
    'or with several hosts postgres://user@host-a:5432,host-b:5432/belfry',
}
const mostHosts = 16

export function readDatabaseUrl(text: string): DatabaseHosts | UrlFault {
  const urls = urlsOf(text)
  if (urls === undefined || !urls.every(isPostgresUrl)) return notPostgres
  if (urls.length > mostHosts) return { fault: `names more than ${mostHosts} hosts` }
  const asked = new URL(urls[0] ?? '').searchParams.get('target_session_attrs')
  const wanted = attributes.find((each) => each === asked)
  if (asked === null || wanted !== undefined) return { urls, wanted }
  return { fault: `has an unknown target_session_attrs; it is one of ${attributes.join(', ')}` }
}

function isPostgresUrl(text: string): boolean {
  return /^postgres(ql)?:\/\//i.test(text) && URL.canParse(text)
}

/** Undefined where hosts and ports do not fit together. */
function urlsOf(text: string): readonly string[] | undefined {
  // greedy up to the last @ before the path, as a URL is read
  const [, scheme = '', login = '', hosts = '', rest = ''] =
    /^([a-z]+:\/\/)([^/?#]*@)?([^/?#@]*)(.*)$/is.exec(text) ?? []
  if (hosts.includes(',')) return hosts.split(',').map((host) => `${scheme}${login}${host}${rest}`)
  if (!/[?&]host=[^&]*(,|%2c)/i.test(rest) || !isPostgresUrl(text)) return [text]
  const { searchParams } = new URL(text)
  const names = (searchParams.get('host') ?? '').split(',')
  const ports = (searchParams.get('port') ?? '').split(',')
  if (ports.length > 1 && ports.length !== names.length) return undefined
  return names.map((name, index) => {
    const one = new URL(text)
    one.searchParams.set('host', name)
    const port = ports.length > 1 ? ports[index] : ports[0]
    if (port !== undefined && port !== '') one.searchParams.set('port', port)
    return one.href
  })
}
