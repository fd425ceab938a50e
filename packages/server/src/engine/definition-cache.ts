/**
 * Definitions by tenant, job and version. A version never changes, so what is here is never stale, but for
 * one that a failover has undone: then all is read again. The least recently used go when there are too many.
 */
import type { JobDefinition } from '@belfry/contract'
import type { JobVersion, RunStore } from '../ports/run-store.ts'
import { createDoubtful } from './doubtful.ts'

const maxDefinitions = 2_000

export interface DefinitionCache {
  /**
   * Looks up each version that is not known yet, all at once. A version that does not exist is left out of
   * the answer.
   */
  load(versions: readonly JobVersion[]): Promise<(version: JobVersion) => JobDefinition | undefined>
}

const keyOf = ({ tenantId, jobId, version }: JobVersion): string => `${tenantId}:${jobId}:${version}`

/** Runs come in rows of one job: then no key is made for each. */
const isSame = (a: JobVersion, b: JobVersion): boolean =>
  a.jobId === b.jobId && a.version === b.version && a.tenantId === b.tenantId

export function createDefinitionCache(store: Pick<RunStore, 'definitions' | 'doubts'>): DefinitionCache {
  const known = new Map<string, JobDefinition>()
  const isSure = createDoubtful(store.doubts, () => known.clear())

  function keep(key: string, definition: JobDefinition): void {
    known.delete(key)
    known.set(key, definition)
    const oldest = known.keys().next()
    if (known.size > maxDefinitions && oldest.done !== true) known.delete(oldest.value)
  }

  return {
    async load(versions) {
      const sure = isSure()
      const wanted = new Map<string, JobVersion>()
      let last: JobVersion | undefined
      for (const version of versions) {
        if (last === undefined || !isSame(version, last)) wanted.set(keyOf(version), version)
        last = version
      }
      const found = new Map<string, JobDefinition>()
      const missing: JobVersion[] = []
      for (const [key, version] of wanted) {
        const definition = known.get(key)
        if (definition === undefined) missing.push(version)
        else found.set(key, definition)
      }
      if (missing.length > 0) {
        for (const row of await store.definitions(missing)) found.set(keyOf(row), row.definition)
      }
      if (sure()) for (const [key, definition] of found) keep(key, definition)
      let asked: JobVersion | undefined
      let answer: JobDefinition | undefined
      return (version) => {
        if (asked === undefined || !isSame(version, asked)) answer = found.get(keyOf(version))
        asked = version
        return answer
      }
    },
  }
}
