/**
 * The file of contexts: which servers this person uses and with which key.
 * `$XDG_CONFIG_HOME/belfry/contexts.yaml`, readable by its owner only (0600, folder 0700), replaced in one
 * step so that a reader never sees half of it.
 */
import { randomUUID } from 'node:crypto'
import { chmod, mkdir, open, readFile, realpath, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { BelfryError } from '@belfry/contract'
import { parse, stringify } from 'yaml'
import type { Environment } from './io.ts'
import { configHome } from './io.ts'

export type Context = { readonly url: string; readonly apiKey?: string }
export type Contexts = { readonly current?: string; readonly contexts: Readonly<Record<string, Context>> }

export const contextFile = (env: Environment): string => join(configHome(env), 'belfry', 'contexts.yaml')

function codeOf(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code
  return typeof code === 'string' ? code : ''
}

/**
 * Reads the file; one that is not there holds nothing. Throws `invalid_config` for one that does not hold
 * contexts.
 */
export async function readContexts(path: string): Promise<Contexts> {
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (cause) {
    if (codeOf(cause) === 'ENOENT') return { contexts: {} }
    const why = codeOf(cause) || 'unknown error'
    throw new BelfryError(
      'invalid_config',
      `The file of contexts ${path} cannot be read (${why}); check its permissions.`,
      {
        cause,
      },
    )
  }
  return checked(text, path)
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

// Nothing of the text is quoted in an error: it holds keys.
function checked(text: string, path: string): Contexts {
  const fault = (what: string): BelfryError =>
    new BelfryError(
      'invalid_config',
      `The file of contexts ${path} ${what}; mend it, or remove it and run \`belfry dev\`.`,
    )
  let value: unknown
  try {
    value = parse(text, { logLevel: 'silent' })
  } catch {
    throw fault('is not valid YAML')
  }
  if (value === null || value === undefined) return { contexts: {} }
  if (!isObject(value) || (value['contexts'] !== undefined && !isObject(value['contexts']))) {
    throw fault('does not hold `current` and `contexts`')
  }
  const contexts: Record<string, Context> = {}
  for (const [name, entry] of Object.entries(value['contexts'] ?? {})) {
    if (!isObject(entry) || typeof entry['url'] !== 'string')
      throw fault(`has no url for the context "${name}"`)
    const apiKey = entry['apiKey']
    contexts[name] = { url: entry['url'], ...(typeof apiKey === 'string' ? { apiKey } : {}) }
  }
  const current = value['current']
  return { contexts, ...(typeof current === 'string' ? { current } : {}) }
}

/** Replaces the file: written beside it, synced, then renamed over it (or over what it links to). */
export async function writeContexts(path: string, contexts: Contexts): Promise<void> {
  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 })
    const target = await realpath(path).catch(() => path)
    const beside = `${target}.${randomUUID()}`
    try {
      const file = await open(beside, 'wx', 0o600)
      try {
        await file.writeFile(stringify(contexts))
        await file.sync()
      } finally {
        await file.close()
      }
      await chmod(beside, 0o600)
      await rename(beside, target)
    } finally {
      await rm(beside, { force: true })
    }
  } catch (cause) {
    const why = codeOf(cause) || 'unknown error'
    throw new BelfryError(
      'invalid_config',
      `The file of contexts ${path} cannot be written (${why}); check the folder.`,
      {
        cause,
      },
    )
  }
}

/**
 * Stores a context. It becomes the current one if `use` is set or there is none yet; fields left out keep
 * what they were. Two writers at once: the later one wins, the file stays whole.
 */
export async function saveContext(
  path: string,
  given: {
    readonly name: string
    readonly url: string
    readonly apiKey?: string | undefined
    readonly use?: boolean
  },
): Promise<Contexts> {
  const before = await readContexts(path)
  const apiKey = given.apiKey ?? before.contexts[given.name]?.apiKey
  const entry: Context = { url: given.url, ...(apiKey === undefined ? {} : { apiKey }) }
  const current = given.use === true ? given.name : (before.current ?? given.name)
  const after: Contexts = { current, contexts: { ...before.contexts, [given.name]: entry } }
  await writeContexts(path, after)
  return after
}

/** Words about a file that others can read; undefined when it is as it should be. */
export async function looseContextFile(path: string): Promise<string | undefined> {
  const mode = await stat(path).then(
    (found) => found.mode,
    () => 0,
  )
  if ((mode & 0o077) === 0) return undefined
  return `warning: ${path} holds API keys and others can read it; run: chmod 600 ${path}`
}
