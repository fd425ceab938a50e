// The parent's side of player.ts: starts a process for an engine and calls its verbs.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import type { EngineName, EngineOptions } from './engine.ts'
import type { Verbs } from './player.ts'

export type Player = {
  readonly [Verb in Exclude<keyof Verbs, 'open'>]: Verbs[Verb]
} & { readonly pid: number }

const program = new URL('player.ts', import.meta.url)
const fromSource = new URL('../../../scripts/lib/from-source.mjs', import.meta.url).href
const closeWithinMs = 30_000

/** An engine, opened in a process of its own; `close` ends both. */
export async function openPlayer(name: EngineName, options: EngineOptions): Promise<Player> {
  const child = fork(program, [], { execArgv: ['--import', fromSource], serialization: 'json' })
  const gone = once(child, 'exit')
  const waiting = new Map<number, PromiseWithResolvers<unknown>>()
  let asked = 0
  child.on('message', ({ id, answer, error }: { id: number; answer?: unknown; error?: string }) => {
    const asker = waiting.get(id)
    waiting.delete(id)
    if (error === undefined) asker?.resolve(answer)
    else asker?.reject(new Error(`${name}: ${error}`))
  })
  void gone.then(([code, signal]) => {
    for (const each of waiting.values()) each.reject(new Error(`${name} ended early: ${code ?? signal}.`))
  })
  const ask =
    (verb: string) =>
    (...given: unknown[]): Promise<unknown> => {
      const answer = Promise.withResolvers<unknown>()
      waiting.set(++asked, answer)
      child.send({ id: asked, verb, given })
      return answer.promise
    }
  const close = async (): Promise<void> => {
    const limit = setTimeout(() => child.kill('SIGKILL'), closeWithinMs)
    // whatever it cannot clean up goes with its database
    await ask('close')().catch((error: unknown) => process.stderr.write(`${String(error)}\n`))
    child.kill('SIGKILL')
    await gone
    clearTimeout(limit)
  }
  const verbs = new Proxy({} as Player, {
    get: (_, verb) =>
      verb === 'pid' ? child.pid : verb === 'close' ? close : verb === 'then' ? undefined : ask(String(verb)),
  })
  try {
    await ask('open')(name, options)
  } catch (error) {
    child.kill('SIGKILL')
    throw error
  }
  return verbs
}
