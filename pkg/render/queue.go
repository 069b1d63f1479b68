// Copyright Contributors to the Open Cluster Management project

package render

import (
	"container/list"
	"sync"
)

// queue runs a bounded number of concurrent tasks and takes the namespaces in turn: a namespace with many tasks delays the
// task of another namespace by at most one task.
type queue struct {
	mu sync.Mutex
	// total is how many tasks run at a time, and ofNamespace how many of one namespace.
	total, ofNamespace int
	running            int
	lines              map[string]*taskLine
	// turns are the lines with waiting tasks in the order of their turns.
	turns *list.List
}

// taskLine holds the tasks of one namespace.
type taskLine struct {
	namespace string
	waiting   []func()
	running   int
}

func newQueue() *queue {
	return &queue{total: maxRenders, ofNamespace: maxRendersOfNamespace, lines: map[string]*taskLine{}, turns: list.New()}
}

// submitTask queues a task until the turn of the namespace and does not wait.
func (q *queue) submitTask(namespace string, task func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[namespace]
	if l == nil {
		l = &taskLine{namespace: namespace}
		q.lines[namespace] = l
	}
	if l.waiting = append(l.waiting, task); len(l.waiting) == 1 {
		q.turns.PushBack(l)
	}
	q.startTasks()
}

// startTasks starts the tasks within the bounds. The caller holds the lock.
func (q *queue) startTasks() {
	for q.running < q.total {
		l := q.nextLine()
		if l == nil {
			return
		}
		task := l.waiting[0]
		l.waiting[0] = nil
		l.waiting = l.waiting[1:]
		if len(l.waiting) > 0 {
			q.turns.PushBack(l)
		}
		l.running++
		q.running++
		go func() {
			defer q.endTask(l)
			task()
		}()
	}
}

// nextLine removes the line with the next turn from the turns; nil when every line has to wait.
func (q *queue) nextLine() *taskLine {
	for at := q.turns.Front(); at != nil; at = at.Next() {
		if l, ok := at.Value.(*taskLine); ok && l.running < q.ofNamespace {
			q.turns.Remove(at)
			return l
		}
	}
	return nil
}

// endTask makes room for the next task.
func (q *queue) endTask(l *taskLine) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l.running--
	q.running--
	if l.running == 0 && len(l.waiting) == 0 {
		delete(q.lines, l.namespace)
	}
	q.startTasks()
}

// waiterLimit bounds the waiting callers, so that every controller keeps free workers.
type waiterLimit struct {
	mu      sync.Mutex
	waiting int
	of      map[string]int
}

// admitWaiter reports whether another caller may wait for the namespace. An admitted caller calls releaseWaiter afterwards.
func (g *waiterLimit) admitWaiter(namespace string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting >= maxWaiting || g.of[namespace] >= maxWaitingForNamespace {
		return false
	}
	if g.of == nil {
		g.of = map[string]int{}
	}
	g.waiting++
	g.of[namespace]++
	return true
}

func (g *waiterLimit) releaseWaiter(namespace string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting--
	if g.of[namespace]--; g.of[namespace] == 0 {
		delete(g.of, namespace)
	}
}
