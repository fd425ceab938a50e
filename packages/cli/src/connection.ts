/**
 * Which server and which key a call uses: flag, else environment, else context, else the address that
 * `belfry dev` takes. A context's key goes to that context's own address only: naming another server by flag
 * or environment does not send it.
 */
import { nearest } from '@belfry/contract'
import type { Context, Contexts } from './contexts.ts'
import { UsageError } from './exit-codes.ts'
import type { Flags } from './flags.ts'
import { readText } from './flags.ts'
import type { Io } from './io.ts'

export const defaultUrl = 'http://127.0.0.1:4680'

export type Source = 'flag' | 'environment' | 'context' | 'default' | 'none'

export type Connection = {
  readonly url: string
  readonly urlFrom: Source
  readonly apiKey: string | undefined
  readonly keyFrom: Source
  readonly contextName: string | undefined
}

const notEmpty = (text: string | undefined): string | undefined =>
  text === undefined || text === '' ? undefined : text

/**
 * The context named by flag or environment, else the current one. Throws `UsageError` for one that is not
 * there.
 */
export function pickContext(
  contexts: Contexts,
  named: string | undefined,
): { readonly name: string; readonly context: Context } | undefined {
  const name = named ?? contexts.current
  if (name === undefined) return undefined
  const context = Object.hasOwn(contexts.contexts, name) ? contexts.contexts[name] : undefined
  if (context !== undefined) return { name, context }
  const near = nearest(name, Object.keys(contexts.contexts))
  const fix = near === undefined ? 'see `belfry context list`' : `did you mean ${near}?`
  throw new UsageError(`there is no context "${name}"; ${fix}`)
}

function originOf(url: string): string | undefined {
  return URL.canParse(url) ? new URL(url).origin : undefined
}

/** A key as it may go into a header. The message never shows it. */
export function checkKey(key: string, from: string): string {
  const trimmed = key.trim()
  if (/^[\x21-\x7e]{1,512}$/.test(trimmed)) return trimmed
  throw new UsageError(
    `${from} does not hold an API key; it is one word without spaces, as \`belfry key create\` shows it`,
  )
}

function checkUrl(url: string, from: string): string {
  const parsed = URL.canParse(url) ? new URL(url) : undefined
  const fits =
    parsed !== undefined && /^https?:$/.test(parsed.protocol) && parsed.search === '' && parsed.hash === ''
  if (fits && parsed.username === '' && parsed.password === '') return url
  throw new UsageError(
    `${from} is not the address of a server; write it like ${defaultUrl}, without credentials`,
  )
}

/** Works out the connection of a call. */
export async function resolveConnection(flags: Flags, io: Io, contexts: Contexts): Promise<Connection> {
  const urlFlag = flags.text('url')
  const urlEnv = notEmpty(io.env['BELFRY_URL'])
  const keyEnv = notEmpty(io.env['BELFRY_API_KEY'])
  const keyPath = flags.text('key-file')
  const named = flags.text('context') ?? notEmpty(io.env['BELFRY_CONTEXT'])
  // With address and key given outright, a stale `current` must not stand in the way.
  const needsContext =
    named !== undefined || (urlFlag ?? urlEnv) === undefined || (keyPath ?? keyEnv) === undefined
  const picked = needsContext ? pickContext(contexts, named) : undefined

  const url = checkUrl(
    urlFlag ?? urlEnv ?? picked?.context.url ?? defaultUrl,
    urlFlag !== undefined
      ? '--url'
      : urlEnv !== undefined
        ? 'BELFRY_URL'
        : `the url of the context ${picked?.name ?? ''}`,
  )
  const sameServer = picked !== undefined && originOf(picked.context.url) === originOf(url)
  const keyFromContext = sameServer ? picked.context.apiKey : undefined
  const key =
    keyPath === undefined
      ? keyEnv === undefined
        ? keyFromContext === undefined
          ? undefined
          : checkKey(keyFromContext, `the context ${picked?.name ?? ''}`)
        : checkKey(keyEnv, 'BELFRY_API_KEY')
      : checkKey(await readText(keyPath, '--key-file', io), '--key-file')
  return {
    url,
    urlFrom:
      urlFlag !== undefined ? 'flag' : urlEnv !== undefined ? 'environment' : picked ? 'context' : 'default',
    apiKey: key,
    keyFrom:
      keyPath !== undefined
        ? 'flag'
        : keyEnv !== undefined
          ? 'environment'
          : key !== undefined
            ? 'context'
            : 'none',
    contextName: picked?.name,
  }
}

/** A key as it may be shown: its beginning, and only of one long enough to keep the rest secret. */
export function maskedKey(key: string | undefined): string | null {
  if (key === undefined) return null
  return key.length >= 24 ? `${key.slice(0, 8)}…` : '…'
}
