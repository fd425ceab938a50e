/**
 * `belfry context …`: which server and key this command line uses. Keys are never printed, only their
 * beginning.
 */
import type { Call, Command } from '../command.ts'
import { required } from '../command.ts'
import { checkKey, defaultUrl, maskedKey, pickContext } from '../connection.ts'
import { contextFile, readContexts, saveContext, writeContexts } from '../contexts.ts'
import { UsageError } from '../exit-codes.ts'
import { readText } from '../flags.ts'
import type { Shape } from '../output/printer.ts'
import { plain } from '../output/text.ts'
import { sayChange } from './shared.ts'

type ContextView = {
  readonly name: string
  readonly url: string
  readonly apiKey: string | null
  readonly current: boolean
}

const contextShape: Shape<ContextView> = {
  name: (context) => context.name,
  columns: [
    { title: 'CURRENT', cell: (context) => (context.current ? '*' : ' ') },
    { title: 'NAME', cell: (context) => context.name, flexible: true },
    { title: 'URL', cell: (context) => context.url, flexible: true },
    { title: 'KEY', cell: (context) => context.apiKey ?? '-' },
  ],
  fields: (context) => [
    ['Name', context.name],
    ['Url', context.url],
    ['Key', context.apiKey ?? '-'],
    ['Current', context.current ? 'yes' : 'no'],
  ],
}

const path = (call: Call): string => contextFile(call.io.env)

async function list(call: Call): Promise<undefined> {
  const { contexts, current } = await readContexts(path(call))
  const items = Object.entries(contexts).map(
    ([name, context]): ContextView => ({
      name,
      url: context.url,
      apiKey: maskedKey(context.apiKey),
      current: name === current,
    }),
  )
  call.printer.list(
    { items },
    contextShape,
    'No contexts yet. `belfry dev` makes one, or: belfry context set NAME --url URL',
  )
}

async function use(call: Call): Promise<undefined> {
  const file = path(call)
  const contexts = await readContexts(file)
  const name = required(call, 'name')
  const picked = pickContext(contexts, name)
  if (picked === undefined) throw new Error('a context that was named is either there or refused')
  if (!call.dryRun) await writeContexts(file, { ...contexts, current: name })
  sayChange(call, `Using the context ${name} (${plain(picked.context.url)}).`, 'belfry context show')
}

async function set(call: Call): Promise<undefined> {
  const file = path(call)
  const name = required(call, 'name')
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/.test(name) || name === '__proto__') {
    throw new UsageError(`"${name}" cannot name a context; use letters, digits, ".", "_" and "-"`)
  }
  const before = (await readContexts(file)).contexts[name]
  const url = call.flags.text('url') ?? before?.url
  if (url === undefined) throw new UsageError(`say where the server is: --url ${defaultUrl}`)
  if (!/^https?:\/\/[^@?#\s]+$/.test(url) || !URL.canParse(url)) {
    throw new UsageError(
      `--url "${url}" is not the address of a server; write it like ${defaultUrl}, without credentials`,
    )
  }
  const keyFile = call.flags.text('key-file')
  const apiKey =
    keyFile === undefined ? undefined : checkKey(await readText(keyFile, '--key-file', call.io), '--key-file')
  // A key belongs to the server it was made by: a context that moves elsewhere does not take it along.
  const moved = before !== undefined && new URL(before.url).origin !== new URL(url).origin
  if (moved && before.apiKey !== undefined && apiKey === undefined) {
    throw new UsageError(
      `the context ${name} has a key for ${before.url}; give the key for the new address by --key-file`,
    )
  }
  if (!call.dryRun) await saveContext(file, { name, url, apiKey, use: call.flags.on('use') })
  sayChange(
    call,
    `Set the context ${name}: ${url}${apiKey === undefined ? '' : ' with a key'}.`,
    `belfry context use ${name}`,
  )
}

async function show(call: Call): Promise<undefined> {
  const named = call.argument('name')
  if (named !== undefined) {
    const contexts = await readContexts(path(call))
    const picked = pickContext(contexts, named)
    if (picked === undefined) throw new Error('a context that was named is either there or refused')
    const { url, apiKey } = picked.context
    call.printer.one(
      { name: named, url, apiKey: maskedKey(apiKey), current: named === contexts.current },
      contextShape,
    )
    return
  }
  const connection = await call.connection()
  const { contextName, url, urlFrom, apiKey, keyFrom } = connection
  const shown = {
    context: contextName ?? null,
    url,
    urlFrom,
    apiKey: maskedKey(apiKey),
    keyFrom,
    file: path(call),
  }
  call.printer.value(shown, [
    `Context  ${plain(contextName ?? '-')}`,
    `Url      ${plain(url)} (from ${urlFrom})`,
    `Key      ${maskedKey(apiKey) ?? '-'} (from ${keyFrom})`,
    `File     ${plain(shown.file)}`,
  ])
}

export const contextCommands: readonly Command[] = [
  {
    noun: 'context',
    verb: 'list',
    summary: 'List contexts',
    effect: 'local',
    examples: [{ words: 'All contexts', command: 'belfry context list' }],
    run: list,
  },
  {
    noun: 'context',
    verb: 'use',
    summary: 'Make a context the current one',
    arguments: [{ name: 'name', summary: 'Name of the context' }],
    effect: 'localChange',
    examples: [{ words: 'Talk to production from now on', command: 'belfry context use production' }],
    run: use,
  },
  {
    noun: 'context',
    verb: 'set',
    summary: 'Make or change a context',
    details:
      'The key comes from a file or standard input, never from a flag: it would stand in the shell history.',
    arguments: [{ name: 'name', summary: 'Name of the context' }],
    flags: [{ name: 'use', summary: 'Make it the current one' }],
    effect: 'localChange',
    examples: [
      {
        words: 'A server and the key for it',
        command: 'belfry context set production --url https://belfry.example.com --key-file key.txt --use',
      },
      {
        words: 'The key from a password store',
        command: 'pass belfry | belfry context set production --key-file -',
      },
    ],
    run: set,
  },
  {
    noun: 'context',
    verb: 'show',
    summary: 'Show which server and key are used, and where each comes from',
    arguments: [{ name: 'name', summary: 'Name of a context; what is in use if left out', optional: true }],
    effect: 'local',
    examples: [{ words: 'What is in use', command: 'belfry context show' }],
    run: show,
  },
]
