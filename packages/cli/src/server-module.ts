/**
 * What the command line needs of `@belfry/server`, which it loads only for `dev`, `server`, `config` and
 * `demo`, so that every other command starts without the weight of an engine.
 */

import type { DemoOptions } from './demo/demo.ts'

/** What a server that has come up tells: enough to talk to it. */
export type Ready = { readonly url: string; readonly apiKey: string }

export type ServerOptions = {
  readonly action: 'start' | 'migrate' | 'init'
  /** Settings given as flags, by their name in the configuration. */
  readonly flags: Readonly<Record<string, unknown>>
  readonly configFile?: string
  readonly env: Readonly<Record<string, string | undefined>>
  readonly out: (line: string) => void
  readonly signal: AbortSignal
  /** For `init`: name of the first tenant, and what to do with its key. */
  readonly tenant?: string
  readonly onReady?: (ready: Ready) => void
}

export type DevOptions = {
  readonly dataDir?: string
  readonly port?: number
  readonly out: (line: string) => void
  readonly signal: AbortSignal
  /** Where the context `dev` is kept; named in what is printed. */
  readonly contextFile: string
  readonly onReady: (ready: Ready) => void
}

export type LoadedConfig = {
  readonly config: Readonly<Record<string, unknown>>
  readonly sources: Readonly<Record<string, string>>
}

/** Each `run…` resolves when the server has stopped, with an exit code if it is not 0. */
export type ServerModule = {
  runServer(options: ServerOptions): Promise<number | undefined>
  runDev(options: DevOptions): Promise<number | undefined>
  startBelfry: DemoOptions['startBelfry']
  loadConfig(given: {
    flags: Readonly<Record<string, unknown>>
    env: Readonly<Record<string, string | undefined>>
    file?: string
  }): LoadedConfig
}
