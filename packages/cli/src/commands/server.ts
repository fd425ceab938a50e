/**
 * `belfry dev | server … | config … | demo`: what needs the
 * server's own code, which is loaded only here.
 */
import type { Config, Ready, RunServerOptions } from '@belfry/server'
import type { Call, Command, FlagSpec } from '../command.ts'
import { required } from '../command.ts'
import { contextFile, saveContext } from '../contexts.ts'
import { UsageError } from '../exit-codes.ts'
import { plain } from '../output/text.ts'
import { given, sayChange } from './shared.ts'

const settingFlags: readonly FlagSpec[] = [
  { name: 'config', value: 'path', summary: 'File with settings, YAML or JSON (else BELFRY_CONFIG)' },
  { name: 'data-dir', value: 'path', summary: 'Where the embedded Postgres keeps its data' },
  { name: 'host', value: 'address', summary: 'Address of the API' },
  { name: 'port', value: 'number', summary: 'Port of the API; 0 takes a free one' },
  { name: 'ops-port', value: 'number', summary: 'Port of health and metrics; 0 takes a free one' },
  { name: 'roles', value: 'names', summary: 'What this process does: api,scheduler,worker' },
  { name: 'worker-slots', value: 'count', summary: 'Runs that this process executes at once' },
  { name: 'worker-queues', value: 'names', summary: 'Queues that it serves, `*` for every one' },
  { name: 'log-level', value: 'level', summary: 'Least level logged' },
  { name: 'set', value: 'name=value', repeat: true, summary: 'Any other setting, by its name' },
]

/** Settings given as flags, by their name in the configuration; checked by the server's own schema. */
const settings = (call: Call, secrets: ReadonlySet<string>): Record<string, unknown> => ({
  ...Object.fromEntries(call.flags.list('set').map((text) => settingOf(text, secrets))),
  ...given({
    dataDir: call.flags.text('data-dir'),
    host: call.flags.text('host'),
    port: call.flags.text('port'),
    opsPort: call.flags.text('ops-port'),
    roles: call.flags.text('roles'),
    workerSlots: call.flags.text('worker-slots'),
    workerQueues: call.flags.text('worker-queues'),
    logLevel: call.flags.text('log-level'),
  }),
})

/** One `--set name=value`. What may hold a password comes by the environment or the file only. */
export function settingOf(text: string, secrets: ReadonlySet<string>): readonly [string, string] {
  const equals = text.indexOf('=')
  const name = text.slice(0, Math.max(0, equals))
  const value = text.slice(equals + 1)
  if (name === '') throw new UsageError(`--set "${text}" is not a setting; write it like --set drainMs=60000`)
  if (name === 'databaseUrl') {
    throw new UsageError('--set databaseUrl would show its password to others; use DATABASE_URL or the file')
  }
  if (secrets.has(name) || shownSetting(value) !== value) {
    throw new UsageError(`--set ${name} would show a secret to others; use its variable or the file`)
  }
  return [name, value]
}

const out = (call: Call) => (line: string) => call.io.stdout.write(`${line}\n`)

/** Keeps what a server tells when it is up in a context; a failure waits to be asked for. */
function contextKeeper(call: Call, name: string, use: boolean) {
  let kept: Promise<unknown> = Promise.resolve()
  return {
    onReady: ({ url, apiKey }: Ready): void => {
      kept = saveContext(contextFile(call.io.env), { name, url, apiKey, use }).then(
        () => undefined,
        (error: unknown) => error,
      )
    },
    failure: (): Promise<unknown> => kept,
  }
}

async function dev(call: Call): Promise<undefined> {
  const module = await call.io.loadServer()
  const keeper = contextKeeper(call, 'dev', true)
  let told: Promise<void> = Promise.resolve()
  // Nobody else knows the key, so that it could not be kept is said while the server runs, not at its end.
  const onReady = (ready: Ready): void => {
    keeper.onReady(ready)
    told = keeper.failure().then((error) => {
      if (error instanceof Error) call.printer.warn(`warning: ${error.message}`)
    })
  }
  await module.runDev({
    ...given({ dataDir: call.flags.text('data-dir'), port: call.flags.whole('port', 0, 65_535) }),
    out: out(call),
    signal: call.io.stopSignal(),
    contextFile: contextFile(call.io.env),
    onReady,
  })
  await told
  return undefined
}

async function runServer(
  call: Call,
  action: RunServerOptions['action'],
  more: Partial<RunServerOptions> = {},
): Promise<undefined> {
  const module = await call.io.loadServer()
  return module.runServer({
    action,
    flags: settings(call, module.secretSettings),
    ...given({ configFile: call.flags.text('config') }),
    env: call.io.env,
    say: (line) => call.printer.say(line),
    signal: call.io.stopSignal(),
    ...more,
  })
}

async function init(call: Call): Promise<undefined> {
  const context = call.flags.text('save-context')
  const tenant = required(call, 'tenant')
  if (context === undefined) {
    const onReady = ({ url, apiKey }: Ready): void => call.printer.value({ tenant, url, apiKey }, [apiKey])
    return runServer(call, 'init', { tenant, onReady })
  }
  const keeper = contextKeeper(call, context, false)
  await runServer(call, 'init', { tenant, onReady: keeper.onReady })
  const failure = await keeper.failure()
  if (failure instanceof Error) throw failure
  sayChange(call, `Kept the key in the context ${context}.`, `belfry context use ${context}`)
  return undefined
}

async function loadedConfig(call: Call) {
  const module = await call.io.loadServer()
  const loaded = module.loadConfig({
    flags: settings(call, module.secretSettings),
    env: call.io.env,
    ...given({ file: call.flags.text('config') }),
  })
  return { ...loaded, secrets: module.secretSettings }
}

/**
 * A setting as it may be shown: passwords in addresses are left out, also in those that are no proper ones,
 * or name several hosts.
 */
function shownSetting(value: unknown): unknown {
  const [, scheme, rest] =
    /^([a-z][a-z0-9+.-]*:\/\/)(.*)$/is.exec(typeof value === 'string' ? value : '') ?? []
  if (scheme === undefined || rest === undefined) return value
  const at = rest.lastIndexOf('@')
  const login = rest.slice(0, Math.max(0, at)).replace(/:.*$/s, ':***')
  const place = rest.slice(at + 1).replace(/\?.+$/s, '?***')
  return `${scheme}${login}${at < 0 ? '' : '@'}${place}`
}

async function configCheck(call: Call): Promise<undefined> {
  await loadedConfig(call)
  call.printer.say('The configuration is valid.', 'Next: belfry config show')
}

function settingWords(value: unknown): string {
  if (value === null || value === undefined) return '-'
  if (Array.isArray(value)) return value.map(settingWords).join(',')
  return typeof value === 'string' ? value : JSON.stringify(value)
}

async function configShow(call: Call): Promise<undefined> {
  const { config, sources, secrets } = await loadedConfig(call)
  const names = Object.keys(sources) as (keyof Config)[]
  const shown = (name: keyof Config): unknown =>
    secrets.has(name) && config[name] !== undefined ? '***' : shownSetting(config[name])
  const rows = names.map((name) => ({
    name,
    value: shown(name) ?? null,
    from: sources[name],
  }))
  const width = Math.max(...rows.map((row) => row.name.length))
  call.printer.value(
    rows,
    rows.map((row) => `${row.name.padEnd(width)}  ${plain(settingWords(row.value))} (${row.from})`),
  )
}

async function demo(call: Call): Promise<number> {
  const options = given({ forSeconds: call.flags.whole('for', 1, 86_400) })
  const { startBelfry } = await call.io.loadServer()
  const common = { ...options, out: out(call), signal: call.io.stopSignal(), startBelfry }
  if (call.flags.on('cluster')) {
    const { runClusterDemo } = await import('../demo/cluster/cluster-demo.ts')
    return runClusterDemo({ ...common, env: call.io.env })
  }
  const { runDemo } = await import('../demo/demo.ts')
  return runDemo(common)
}

export const devCommand: Command = {
  noun: 'dev',
  summary: 'Start Belfry on this machine: everything in one, with its own Postgres',
  details:
    'Makes a local tenant and a key, kept in the context `dev`, which becomes current. Ctrl-C stops it.',
  flags: [
    { name: 'data-dir', value: 'path', summary: 'Where the data is kept; survives restarts' },
    { name: 'port', value: 'number', summary: 'Port of the API; 0 takes a free one' },
  ],
  effect: 'local',
  examples: [
    { words: 'Start, and leave running', command: 'belfry dev' },
    {
      words: 'With data of its own, on another port',
      command: 'belfry dev --data-dir ./belfry-data --port 5000',
    },
  ],
  run: dev,
}

export const serverCommands: readonly Command[] = [
  {
    noun: 'server',
    verb: 'start',
    isDefault: true,
    summary: 'Run a server; `start` may be left out',
    details:
      'Settings come from flags, else environment, else file, else defaults; see `belfry config show`.',
    flags: settingFlags,
    effect: 'local',
    examples: [
      {
        words: 'On a Postgres of your own',
        command: 'DATABASE_URL=postgres://belfry@db/belfry belfry server start',
      },
      { words: 'Only workers', command: 'belfry server start --roles worker' },
    ],
    run: (call) => runServer(call, 'start'),
  },
  {
    noun: 'server',
    verb: 'migrate',
    summary: 'Bring the database schema up to date',
    flags: settingFlags,
    effect: 'local',
    examples: [
      {
        words: 'Before a new version starts',
        command: 'DATABASE_URL=postgres://owner@db/belfry belfry server migrate',
      },
    ],
    run: (call) => runServer(call, 'migrate'),
  },
  {
    noun: 'server',
    verb: 'init',
    summary: 'Make the first tenant and an admin key for it',
    arguments: [{ name: 'tenant', summary: 'Name of the tenant' }],
    flags: [
      ...settingFlags,
      { name: 'save-context', value: 'name', summary: 'Keep the key in this context' },
    ],
    effect: 'local',
    examples: [
      {
        words: 'The first tenant of a new server',
        command: 'belfry server init main --save-context production',
      },
    ],
    run: init,
  },
  {
    noun: 'config',
    verb: 'check',
    summary: 'Check the configuration of a server',
    flags: settingFlags,
    effect: 'local',
    examples: [{ words: 'In CI', command: 'belfry config check --config belfry.yaml' }],
    run: configCheck,
  },
  {
    noun: 'config',
    verb: 'show',
    summary: 'Show each setting and where it comes from',
    flags: settingFlags,
    effect: 'local',
    examples: [{ words: 'What a server here would use', command: 'belfry config show' }],
    run: configShow,
  },
]

export const demoCommand: Command = {
  noun: 'demo',
  summary: 'Show the main job of Belfry with real parts',
  hidden: true,
  flags: [
    { name: 'for', value: 'seconds', summary: 'End by itself after this time, with a summary' },
    {
      name: 'cluster',
      summary: 'Several processes with Redis and Kafka, as far as installed; kills parts of it on the way',
    },
  ],
  effect: 'local',
  examples: [
    { words: 'Twenty seconds', command: 'belfry demo --for 20' },
    { words: 'A cluster whose parts are killed', command: 'belfry demo --cluster --for 60' },
  ],
  run: demo,
}
