/**
 * The file of contexts, as `belfry doctor` looks at it: does it hold what it should, for its owner only.
 * Nothing of it is shown but its path and the name of the current context.
 */
import type { Diagnosis } from '@belfry/server'
import type { Call } from '../command.ts'
import { contextFile, looseContextFile, readContexts } from '../contexts.ts'

export async function examineContexts(call: Call): Promise<Diagnosis> {
  const name = 'contexts'
  const path = contextFile(call.io.env)
  try {
    const { contexts, current } = await readContexts(path)
    const names = Object.keys(contexts)
    const loose = await looseContextFile(path)
    const count = `${path} holds ${names.length === 1 ? 'one context' : `${names.length} contexts`}`
    if (loose !== undefined) {
      return {
        name,
        status: 'warn',
        message: `${count}, and others can read it.`,
        fix: `Run: chmod 600 ${path}`,
      }
    }
    if (names.length === 0) {
      const message = 'There is no context yet.'
      return { name, status: 'ok', message, fix: null }
    }
    if (current !== undefined && !names.includes(current)) {
      const message = `${count}, and the current one, "${current}", is not among them.`
      return { name, status: 'fail', message, fix: 'Choose one: belfry context use NAME' }
    }
    const message = `${count}; current is ${current ?? 'none'}.`
    return { name, status: 'ok', message, fix: null }
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    return { name, status: 'fail', message, fix: null }
  }
}
