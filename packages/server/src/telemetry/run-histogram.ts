/**
 * A histogram for what is observed with every run. That of the library hashes its labels at each observation,
 * which costs more than all else that a worker does to count a run; here the labels are looked up as they
 * are. Its text is the same.
 */
import type { Registry } from 'prom-client'

export interface RunHistogram {
  /** `other` is the value of the second label, where there is one. */
  readonly observe: (queue: string, other: string, seconds: number) => void
}

interface Series {
  readonly labels: Readonly<Record<string, string>>
  /** Of each bucket by itself; the last is that of what is above all bounds. */
  readonly counts: number[]
  sum: number
}

interface Sample {
  readonly metricName: string
  readonly labels: Readonly<Record<string, string | number>>
  readonly value: number
}

export interface RunHistogramOptions {
  readonly registry: Registry
  readonly name: string
  readonly help: string
  /** `queue`, and another or none. */
  readonly labelNames: readonly string[]
  /** In ascending order. */
  readonly buckets: readonly number[]
}

export function createRunHistogram(options: RunHistogramOptions): RunHistogram {
  const { registry, name, help, labelNames, buckets } = options
  const [first = 'queue', second] = labelNames
  const all = new Map<string, Map<string, Series>>()

  function open(queue: string, other: string): Series {
    const labels = second === undefined ? { [first]: queue } : { [first]: queue, [second]: other }
    const series = { labels, counts: Array<number>(buckets.length + 1).fill(0), sum: 0 }
    const byOther = all.get(queue) ?? new Map<string, Series>()
    all.set(queue, byOther.set(other, series))
    return series
  }

  const metric = {
    name,
    help,
    type: 'histogram',
    get: () => {
      const values = [...all.values()].flatMap((each) => [...each.values()]).flatMap(samplesOf)
      return Promise.resolve({ name, help, type: 'histogram', aggregator: 'sum', values })
    },
  }
  registry.registerMetric(metric as unknown as Parameters<Registry['registerMetric']>[0])

  function samplesOf({ labels, counts, sum }: Series): readonly Sample[] {
    let count = 0
    const upTo = counts.map((own, index) => {
      count += own
      const le = buckets[index] ?? '+Inf'
      return { metricName: `${name}_bucket`, labels: { le, ...labels }, value: count }
    })
    return [
      ...upTo,
      { metricName: `${name}_sum`, labels, value: sum },
      { metricName: `${name}_count`, labels, value: count },
    ]
  }

  return {
    observe(queue, other, seconds) {
      const series = all.get(queue)?.get(other) ?? open(queue, other)
      let bucket = 0
      while (bucket < buckets.length && seconds > (buckets[bucket] ?? Infinity)) bucket++
      series.counts[bucket] = (series.counts[bucket] ?? 0) + 1
      series.sum += seconds
    },
  }
}
