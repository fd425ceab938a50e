/**
 * `belfry/schedule`: the schedule evaluator as a library. It answers when a schedule fires, offline; the
 * documentation is at its source, `@belfry/server/schedule`.
 */
export * from '@belfry/server/schedule'
