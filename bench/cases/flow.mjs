// Rows that show what flow control costs a queue that uses it. The limits are so wide that they hold nothing up.
export const flowCases = [
  { title: 'with a limit', flow: 'limit' },
  { title: 'with a breaker', flow: 'breaker' },
  { title: 'with 100 groups', flow: 'groups' },
  { title: 'with 1,000 groups', flow: 'manyGroups' },
  // Fifty jobs of a group at a time, so that jobs that run side by side are far apart in the file.
  { title: 'with 1,000 groups in blocks', flow: 'blocks' },
]
