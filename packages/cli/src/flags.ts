/**
 * Typed access to the flags of one call. Asking for a flag that the command's row does not have is a fault
 * of the program and throws at once, so a misspelt name cannot pass a test.
 */
import { readFile } from 'node:fs/promises'
import type { FlagSpec } from './command.ts'
import { UsageError } from './exit-codes.ts'
import type { Io } from './io.ts'
import * as values from './values.ts'

export type Flags = {
  /** Whether an on/off flag is on. */
  on(name: string): boolean
  text(name: string): string | undefined
  list(name: string): readonly string[]
  durationMs(name: string): number | undefined
  whole(name: string, min: number, max: number): number | undefined
  /** One of the flag's choices. */
  choice<T extends string>(name: string, choices: readonly T[]): T | undefined
  instant(name: string): string | undefined
  pastInstant(name: string): string | undefined
  /** JSON given as it is, or by `@file`, or by `@-` from standard input. */
  json(name: string): Promise<unknown>
  /** Text of a file named by the flag; `-` is standard input. */
  file(name: string): Promise<string | undefined>
  /** Names of those among `names` that were given. */
  given(names: readonly string[]): readonly string[]
}

export type FlagValues = ReadonlyMap<string, string | boolean | readonly string[]>

export function createFlags(specs: readonly FlagSpec[], given: FlagValues, io: Io): Flags {
  const known = new Set(specs.map((spec) => spec.name))
  const raw = (name: string) => {
    if (!known.has(name)) throw new Error(`the flag --${name} is not in the command's row`)
    return given.get(name)
  }
  const text = (name: string): string | undefined => {
    const value = raw(name)
    return typeof value === 'string' ? value : undefined
  }
  const parsed = <T>(name: string, parse: (value: string, flag: string) => T): T | undefined => {
    const value = text(name)
    return value === undefined ? undefined : parse(value, `--${name}`)
  }
  return {
    text,
    on: (name) => raw(name) === true,
    list: (name) => {
      const value = raw(name)
      return Array.isArray(value) ? (value as readonly string[]) : []
    },
    durationMs: (name) => parsed(name, values.durationMs),
    whole: (name, min, max) => parsed(name, (value, flag) => values.whole(value, flag, min, max)),
    choice: (name, choices) => choices.find((choice) => choice === text(name)),
    instant: (name) => parsed(name, (value, flag) => values.instant(value, flag, io.now())),
    pastInstant: (name) => parsed(name, (value, flag) => values.pastInstant(value, flag, io.now())),
    json: async (name) => {
      const value = text(name)
      if (value === undefined) return undefined
      const source = value.startsWith('@') ? await readText(value.slice(1), `--${name}`, io) : value
      return values.json(source, `--${name}`)
    },
    file: async (name) => {
      const path = text(name)
      return path === undefined ? undefined : await readText(path, `--${name}`, io)
    },
    given: (names) => names.filter((name) => raw(name) !== undefined),
  }
}

/** Reads a file, or standard input for `-`. */
export async function readText(path: string, flag: string, io: Io): Promise<string> {
  if (path === '-') return io.readStdin()
  try {
    return await readFile(path, 'utf8')
  } catch (cause) {
    const code = (cause as { code?: unknown } | null)?.code
    const why = typeof code === 'string' ? code : 'unknown error'
    throw new UsageError(`${flag} names the file ${path}, which cannot be read (${why}); check the path`, {
      cause,
    })
  }
}
